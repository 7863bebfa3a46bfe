"""Access to ClickHouse for a command: a running server, otherwise one started for the command."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from infra.clickhouse.client import ClickHouse
from infra.settings import Settings
from newsproof.app.analysts import analyst_client
from newsproof.app.composition import clickhouse_of
from newsproof.app.invocation import Invocation
from newsproof.app.processes.supervisor import prepare_tables
from newsproof.app.servers import servers, with_data


@asynccontextmanager
async def database(invocation: Invocation, *, admin: bool) -> AsyncIterator[ClickHouse]:
    """Yield a client of this command's database; the embedded engine is started if none runs."""
    settings = await with_data(invocation.settings(), given=invocation.data_dir_given)
    async with servers(settings, kafka=False) as found:
        at = found.applied_to(settings)
        if "clickhouse" in found.own:
            await prepare_tables(at)
        async with _client(at, embedded=settings.clickhouse_url is None, admin=admin) as client:
            yield client


def _client(at: Settings, *, embedded: bool, admin: bool) -> ClickHouse:
    return clickhouse_of(at) if admin else analyst_client(at, embedded=embedded)
