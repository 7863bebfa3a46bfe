"""A bot and a receiver of its webhooks, each a process that a test may kill."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
from aiohttp import web

from infra.bots.adapter import RemotePosition
from infra.bots.definition import BotDefinition, Limits
from infra.bots.webhook import WebhookAdapter
from infra.kafka.topics import KafkaAddress
from schemas.errors import TransientError
from schemas.topics import Topics
from streams.bots import reconcile
from streams.bots.runner import BotRunner

SECRET = "whsec_" + base64.b64encode(b"s" * 32).decode()
ASSETS = tuple(f"A{n}" for n in range(400))
MANY = 1_000_000
BOT = BotDefinition(
    name="tried", kind="webhook", mode="live", map={asset: f"{asset}/USDT" for asset in ASSETS},
    limits=Limits(max_age_s=3600, open_positions=MANY, entries_a_day=MANY, entries_an_hour_per_asset=MANY),
)  # fmt: skip


def deeds(file: Path) -> list[dict[str, Any]]:
    """What the receiver did, in order. A line counts once it is whole: a kill may tear one where a page of the file ends."""
    whole = file.read_text().rpartition("\n")[0] if file.exists() else ""
    return [json.loads(line) for line in whole.splitlines() if line.endswith("}")]


def positions(file: Path) -> dict[str, dict[str, Any]]:
    """Reference → the entry, and whether it is still open."""
    found: dict[str, dict[str, Any]] = {}
    for deed in deeds(file):
        if deed["intent"] == "enter":
            found[deed["reference"]] = deed | {"open": True}
        elif deed["reference"] in found:
            found[deed["reference"]]["open"] = False
    return found


class Readable(WebhookAdapter):
    """A webhook whose receiver says what it holds."""

    async def positions(self) -> Mapping[str, RemotePosition] | None:
        try:
            async with httpx.AsyncClient(timeout=2) as client:
                said = (await client.get(f"{self._bot.url}/positions")).json()
        except httpx.HTTPError as exc:
            raise TransientError(f"the receiver does not respond: {exc!r}", kind="network") from exc
        return {
            ref: RemotePosition(
                instrument=one["instrument"], side=one["side"], reference=ref, remote_id=ref, is_open=one["open"]
            )
            for ref, one in said.items()
        }


async def run_bot(address: KafkaAddress, topics: Topics, url: str, readable: bool) -> None:
    """Send orders to the receiver at this URL."""
    reconcile.EXIT_PAUSES_S = (0.2, 0.2, 0.4, 1)  # type: ignore[assignment]
    reconcile.VISIBLE_WITHIN_MS = 2_000
    bot = BotDefinition(**{name: getattr(BOT, name) for name in BOT.__struct_fields__} | {"url": url})
    adapter = (Readable if readable else WebhookAdapter)(bot, (SECRET,), private=True)
    await BotRunner(bot, adapter, address, topics, reconcile_s=1.0).run()


def _opened(file: Path) -> int:
    done = os.open(file, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    if not file.read_bytes().endswith(b"\n"):
        os.write(done, b"\n")  # ends the line that the last kill tore
    return done


async def receive(file: Path, port: int) -> None:
    """Do what is asked, then answer; every sixth answer is lost, and every ninth request is put off."""
    done, asked = _opened(file), 0

    async def take(request: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        if asked % 9 == 0:
            return web.Response(status=429, headers={"retry-after": "0.2"})
        os.write(done, json.dumps((await request.json())["data"]).encode() + b"\n")
        if asked % 6 == 0 and request.transport is not None:
            request.transport.abort()
        return web.Response()

    async def held(_: web.Request) -> web.Response:
        return web.json_response(positions(file))

    app = web.Application()
    app.router.add_post("/hook", take)
    app.router.add_get("/hook/positions", held)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    await asyncio.Event().wait()
