"""Benchmarks the listener: killed repeatedly while feeds grow and their texts are rendered differently, then idle over
unchanged feeds.

This process serves the feeds. Their items appear one after another, dated at that moment. Broker and listener are
killed by SIGKILL. Only the records of ``news`` are counted: items in a feed that never became news (lost), and items
that became news under two texts (second cases), because no text was edited.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from email.utils import format_datetime

import psutil
from aiohttp import web

from infra.embedded.child import ChildProcess
from infra.kafka.topics import offsets_of, read_range
from lab.bench.measures import Figure
from lab.bench.world import ROOT, World, world
from schemas.news import News, decode_news

ITEMS, SOURCES, KILLS = 20_000, 40, 50
BROKER_EVERY = 10
"""One kill in this many hits the broker instead."""
RESTING, OF_A_FEED, REST_S = 100, 50, 60
SESSION_S = 2.5
"""Session of the lease, so that a successor waits less for a killed listener than the product's 6 s."""
_RENDERINGS = ("", " Share this.", " 2 min read.", " Follow us.")
_START = f"from streams import lease; lease.SESSION_S = {SESSION_S}; from newsproof.__main__ import main; main()"
_WORDS = " ".join(f"word{n}" for n in range(80))


class Feeds:
    """Feeds that grow. ``shown`` counts the items that have appeared in all of them."""

    def __init__(self, sources: int, items: int, seed: int) -> None:
        self.names = [f"feed-{n}" for n in range(sources)]
        self.each = items // sources
        self.out: dict[str, list[datetime]] = {name: [] for name in self.names}
        self.renders_anew = True
        self._rng = random.Random(seed)

    @property
    def shown(self) -> int:
        return sum(map(len, self.out.values()))

    def grow(self, share: float) -> None:
        """Let items appear until this share of all of them has."""
        now = datetime.now(UTC)
        for out in self.out.values():
            out.extend([now] * (min(self.each, round(self.each * share)) - len(out)))

    async def answer(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        anew = self._rng.choice(_RENDERINGS) if self.renders_anew else ""
        items = "".join(
            f"<item><guid>{n}</guid><title>Event {n} of {name}</title><pubDate>{format_datetime(at)}</pubDate>"
            f"<description>{name} {n} {_WORDS}{anew}</description></item>"
            for n, at in enumerate(self.out[name])
        )
        body = f'<?xml version="1.0"?><rss version="2.0"><channel><title>{name}</title>{items}</channel></rss>'
        return web.Response(body=body.encode(), content_type="application/rss+xml")


@asynccontextmanager
async def served(feeds: Feeds) -> AsyncIterator[str]:
    """Yield the address of a server of these feeds."""
    app = web.Application()
    app.router.add_get("/{name}", feeds.answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def listener(w: World, feeds: Feeds, address: str, every_s: int) -> ChildProcess:
    """Return ``newsproof listen`` over these feeds as a process, not started."""
    rows = [
        f'[[source]]\nid = "{name}"\nkind = "feed"\nurl = "{address}/{name}"\nprivate = true\nrobots = false\nevery_s = {every_s}\n'
        for name in feeds.names
    ]
    file = w.directory / "sources.toml"
    file.write_text("\n".join(rows), "utf-8")
    env = {
        **os.environ, "PYTHONPATH": str(ROOT), "LISTENER_SOURCES": str(file), "LISTENER_MAX_NEW": "100000",
        "NEWSPROOF_DATA_DIR": str(w.directory / "data"), **w.address.as_environment(),
    }  # fmt: skip
    only = [word for name in feeds.names for word in ("--source", name)]
    command = [sys.executable, "-P", "-c", _START, "listen", *only]
    return ChildProcess("the listener", command, log_file=w.directory / "listener.log", cwd=w.directory, env=env)


async def listen(items: int = ITEMS, kills: int = KILLS, seed: int = 1) -> list[Figure]:
    """Kill the listener and the broker while items appear, then let the listener rest; count and measure."""
    feeds, rng = Feeds(SOURCES, items, seed), random.Random(seed)
    async with world() as w, served(feeds) as address:
        child = listener(w, feeds, address, 1)
        child.start()
        for kill in range(kills):
            feeds.grow((kill + 1) / kills)
            await _some(w, 1 + kill % 3)
            await asyncio.sleep(rng.uniform(0, 1.5))
            if kill % BROKER_EVERY == BROKER_EVERY - 1:
                w.kafka.kill()
                await w.kafka.start()
            else:
                child.kill()
                await child.wait(timeout_s=30)
                child.start()
            print(f"kill {kill + 1} of {kills}: {feeds.shown:,} items out", file=sys.stderr, flush=True)
        published_items = await _complete(w, feeds)
        await child.stop()
        lines = (w.directory / "listener.log").read_text("utf-8", "replace")
    async with world() as w:
        share, memory, found_at_rest = await _rest(w, seed)
    recovered = sum(int(n) for n in re.findall(r'"items_recovered": ?(\d+)', lines))
    return _figures(feeds, published_items, kills, recovered) + _at_rest(found_at_rest, share, memory)


async def _some(w: World, looks: int) -> None:
    """Wait until news has arrived this many times, so that kills hit a busy listener; at most 30 s."""
    until = time.monotonic() + 30
    for _ in range(looks):
        before = await _end(w)
        while await _end(w) == before and time.monotonic() < until:  # noqa: ASYNC110 - another process ends it
            await asyncio.sleep(0.02)


async def _end(w: World) -> int:
    return sum(end for _, end in (await offsets_of(w.address, w.topics.news)).values())


async def _complete(w: World, feeds: Feeds) -> list[tuple[News, int]]:
    """Return all news with its append time (ms), once every item is there, after two more polls for second cases."""
    until = time.monotonic() + 300
    while time.monotonic() < until and len({(n.source, n.identity) for n, _ in await _news(w)}) < feeds.shown:  # noqa: ASYNC110
        await asyncio.sleep(1)
    await asyncio.sleep(5)
    return await _news(w)


async def _news(w: World) -> list[tuple[News, int]]:
    items: list[tuple[News, int]] = []
    async for _, records in read_range(w.address, await offsets_of(w.address, w.topics.news)):
        items += [(decode_news(record.value, now=datetime.now(UTC)), record.timestamp) for record in records]
    return items


async def _rest(w: World, seed: int) -> tuple[float, float, list[float]]:
    """Return (share of a core, resident MiB) of a listener over unchanged feeds, including its parsing process, and the
    milliseconds from the response with a new item to its append, one item per feed.
    """
    feeds = Feeds(RESTING, RESTING * OF_A_FEED, seed)
    feeds.renders_anew = False
    feeds.grow(1 - 1 / OF_A_FEED)
    async with served(feeds) as address:
        child = listener(w, feeds, address, 60)
        child.start()
        await _complete(w, feeds)
        tree = [psutil.Process(child.pid), *psutil.Process(child.pid).children(recursive=True)]
        before, began = _cpu_s(tree), time.monotonic()
        await asyncio.sleep(REST_S)
        share = (_cpu_s(tree) - before) / (time.monotonic() - began)
        memory = sum(process.memory_info().rss for process in tree) / 2**20
        feeds.grow(1)
        items = await _complete(w, feeds)
        await child.stop()
    late = str(OF_A_FEED - 1)
    took = [
        at - news.received_at.timestamp() * 1000 for news, at in items if news.received_at and news.identity == late
    ]
    return share, memory, sorted(took)


def _cpu_s(tree: list[psutil.Process]) -> float:
    spent = 0.0
    for process in tree:
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            spent += times.user + times.system
    return spent


def _figures(feeds: Feeds, items: list[tuple[News, int]], kills: int, recovered: int) -> list[Figure]:
    cases = Counter((source, of) for source, of, _ in {(n.source, n.identity, n.text_hash) for n, _ in items})
    name = f"listen: {kills} kills over {feeds.shown:,} items of {len(feeds.names)} feeds"
    return [
        Figure(name=f"{name}: lost", value=feeds.shown - len(cases), unit="items", target="0"),
        Figure(name="listen: items that became two cases", value=sum(n > 1 for n in cases.values()), unit="items", target="0"),
        Figure(name="listen: records of one case written twice", value=len(items) - cases.total(), unit="records", target="-"),
        Figure(name="listen: items found in the log after a kill", value=recovered, unit="items", target="-"),
    ]  # fmt: skip


def _at_rest(took: list[float], share: float, memory: float) -> list[Figure]:
    name = f"listen: {RESTING} feeds of {OF_A_FEED} items"
    return [
        Figure(name=f"{name}, unchanged", value=share * 100, unit="% of a core", target="<= 10"),
        Figure(name=f"{name}, resident", value=memory, unit="MiB", target="<= 250"),
        Figure(name=f"{name}: answer to append, p50", value=took[len(took) // 2], unit="ms", target="<= 20"),
        Figure(name=f"{name}: answer to append, p99", value=took[len(took) * 99 // 100], unit="ms", target="<= 100"),
    ]
