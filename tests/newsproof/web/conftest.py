"""A web service on a free port in this process, over an installation of its own on the session's real Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from infra.settings import Settings, load_settings
from newsproof.app.processes.services import serve_research
from newsproof.web.service import serve
from tests.newsproof.web.reading import asked_with
from tests.streams.world import World

Serving = Callable[..., AbstractAsyncContextManager[httpx.AsyncClient]]


@pytest.fixture
def web_settings(world: World, tmp_path: Path) -> Settings:
    """Of a web service over that installation, offline, without ClickHouse."""
    return load_settings(
        newsproof_mode="offline",
        newsproof_data_dir=tmp_path,
        newsproof_topic_prefix=world.topics.prefix,
        kafka_bootstrap_servers=world.address.bootstrap,
        kafka_embedded_password_file=world.address.password_file,
        topic_partitions=world.partitions,
        web_port=0,
    )


@pytest.fixture
def serving(web_settings: Settings) -> Serving:
    """``async with serving(**settings) as http``: a service that runs until the block ends, and a client of it."""

    @asynccontextmanager
    async def run(**changes: Any) -> AsyncIterator[httpx.AsyncClient]:
        ending, told = asyncio.Event(), asyncio.get_running_loop().create_future()
        # Validated again: a copy would take whatever it is given.
        settings = load_settings(**{**web_settings.model_dump(exclude_unset=True), **changes})
        service = asyncio.create_task(serve(settings, ending, tell=told.set_result))
        await asyncio.wait({service, told}, return_when=asyncio.FIRST_COMPLETED)
        if service.done():
            service.result()
        try:
            async with httpx.AsyncClient(
                **asked_with(told.result(), settings.newsproof_data_dir), timeout=60, trust_env=False
            ) as http:
                yield http
        finally:
            ending.set()
            await service

    return run


@pytest.fixture
async def answering(web_settings: Settings, serving: Serving) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a web service whose questions a research worker answers offline, without ClickHouse."""
    at = web_settings.model_copy(update={"clickhouse_url": "http://127.0.0.1:9"})
    async with serving() as http:
        ending = asyncio.Event()
        working = asyncio.create_task(serve_research(at, ending))
        try:
            yield http
        finally:
            ending.set()
            await working
