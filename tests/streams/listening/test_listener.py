"""The listener on a real log, before sites that change, fail, flood and lie; and ended at every boundary of what it writes."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest
import structlog
from aiohttp import web
from aiokafka.errors import ProducerFenced
from msgspec.structs import replace
from structlog.testing import capture_logs

from infra.kafka.topics import KafkaAddress
from infra.listeners.fetching import Fetcher
from infra.listeners.source import Source
from infra.offline.newsroom.newsroom import Answer, SourceServer
from infra.offline.newsroom.wire import rss
from infra.pages.guard import Guard
from schemas.news import News, is_marked
from schemas.topics import Topics
from streams.listening import listener as listener_module
from streams.listening import memory as memory_module
from streams.listening.listener import Health, Listener, Options
from streams.listening.memory import ItemLog, SourceCursor, remembered_in
from tests.infra.fakes.sources import Newsroom, Report, news_in, recent

KEY = b"of the listener"


class World:
    """Looks at sources once, each time by a listener that knows only what the log holds."""

    def __init__(self, address: KafkaAddress, topics: Topics) -> None:
        self.address, self.topics = address, topics
        self.fetcher = Fetcher(within_s=2)

    async def look(self, *sources: Source, **options: Any) -> dict[str, Health]:
        return await Listener(
            self.address, self.topics, lambda: list(sources), self.fetcher, Options(jitter=0, **options), KEY
        ).once()

    async def news(self) -> list[News]:
        found = await news_in(self.address, self.topics)
        assert all(is_marked(one, [KEY]) for one in found)
        return found


@pytest.fixture
async def world(address: KafkaAddress, made_topics: Topics) -> AsyncIterator[World]:
    made = World(address, made_topics)
    yield made
    await made.fetcher.close()


async def test_a_source_from_its_first_look_over_an_edit_to_what_is_late(world: World) -> None:
    old, fresh = recent(1, age_s=7200), recent(2)
    async with Newsroom(wire=[old, fresh]) as room:
        wire = room.source("wire")
        await world.look(wire)
        assert [one.external_id for one in await world.news()] == ["n2"]
        health = (await world.look(wire))["wire"]
        assert (health.state, health.counts, world.fetcher.parsed) == ("ok", {}, 1), "an unchanged feed is not parsed"

        room.feeds = {"wire": [old, replace(fresh, text=fresh.text + "Updated."), replace(old, id="again")]}
        assert (await world.look(wire))["wire"].counts == {"repeat": 3}
        room.feeds = {"wire": [replace(fresh, title="Event 2 of many (corrected)"), recent(3, age_s=3600)]}
        await world.look(wire)
        news = {(one.external_id, one.extra["title"]): one for one in await world.news()}
        assert set(news) == {
            ("n2", "Event 2 of many"),
            ("n2", "Event 2 of many (corrected)"),
            ("n3", "Event 3 of many"),
        }
        assert news["n3", "Event 3 of many"].extra["flags"] == ["late"]
        known = (await remembered_in(world.address, world.topics)).items["wire"]
        assert {name: one.left_at is None for name, one in known.items()} == {
            "n1": False,
            "n2": True,
            "again": False,
            "n3": True,
        }

        await world.look(wire, backfill=timedelta(hours=3))
        room.feeds = {"wire": [old]}
        await world.look(wire, backfill=timedelta(hours=3))
        (backfilled,) = [one for one in await world.news() if one.external_id == "n1"]
        assert backfilled.received_at is None and backfilled.as_of == backfilled.published_at


async def test_names_that_cannot_be_resolved_are_logged_once_and_known_of_each_source(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(_host: str, _port: int) -> list[str]:
        raise OSError("no name service")

    await world.fetcher.close()
    world.fetcher = Fetcher(guard=Guard(resolves=fails), within_s=2)
    sources = [Source(id=name, kind="feed", url=f"https://{name}.example.com/feed") for name in ("one", "two", "three")]
    monkeypatch.setattr(listener_module, "log", structlog.get_logger())  # one that no test has bound yet
    with capture_logs() as logged:
        health = await world.look(*sources)
    assert all("no name service" in health[one.id].why for one in sources)
    assert len([one for one in logged if one["event"] == "the source does not respond"]) == 1


@pytest.mark.security
async def test_ids_that_change_and_an_archive_open_nothing_and_a_flood_comes_in_turns(world: World) -> None:
    items = [recent(n) for n in range(12)]
    async with Newsroom(wire=items) as room:
        wire = room.source("wire")
        assert (await world.look(wire, max_new=5))["wire"].counts == {"new": 5}
        room.feeds = {"wire": [replace(one, id=f"other-{one.id}") for one in items]}
        for _ in range(3):
            await world.look(wire, max_new=5)
        assert Counter(one.text for one in await world.news()).most_common(1)[0][1] == 1
        assert len(await world.news()) == 12


@pytest.mark.security
async def test_new_ids_without_end_fill_no_memory_and_what_is_still_shown_opens_no_second_case(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_module, "MOST_REMEMBERED", 6)
    steady = recent(0)
    async with Newsroom(wire=[]) as room:
        for number in range(12):
            # An item that stays, another that has a new id at every look, and three that nobody saw before.
            fresh = [recent(3 * number + n) for n in (1, 2, 3)]
            room.feeds = {"wire": [steady, replace(recent(900), id=f"again-{number}"), *fresh]}
            await world.look(room.source("wire"))
        known = (await remembered_in(world.address, world.topics)).items["wire"]
        assert len(known) <= 6 + 5 + 4, "those that left, those that are shown, and what the last look showed no longer"
    news = [one.external_id for one in await world.news()]
    assert sorted(news) == sorted({"n0", "again-0", *(f"n{number}" for number in range(1, 37))}), (
        "each once, and none lost"
    )


@pytest.mark.security
async def test_what_a_site_refuses_breaks_or_never_ends_is_said_and_troubles_no_other(world: World) -> None:
    challenge = b"<!doctype html><title>Just a moment...</title>"
    async with Newsroom(good=[recent(1)]) as room:
        room.answers = {
            "403": Answer(body=b"", status=403),
            "429": Answer(body=b"", status=429, headers={"retry-after": "120"}),
            "503": Answer(body=b"", status=503),
            "page": Answer(body=challenge, content_type="text/html"),
            "big": Answer(body=b" " * 9_000_000),
            "cut": Answer(body=rss(recent(2))[:150]),
        }
        names = ("403", "429", "503", "page", "big", "cut", "good")
        health = await world.look(*(room.source(name) for name in names))
        refused = replace(room.source("local"), private=False)
        health |= await world.look(refused)
    states = {name: one.state for name, one in health.items()}
    assert states == {
        "403": "blocked", "page": "blocked", "429": "backing_off", "503": "backing_off", "big": "backing_off", "cut": "backing_off",
        "good": "ok", "local": "blocked",
    }  # fmt: skip
    assert "a web page" in health["page"].why and "not opened" in health["local"].why
    assert len(await world.news()) == 1


class KilledError(BaseException):
    """Ends a listener as a kill would: nothing that it had in hand is written any more."""


@asynccontextmanager
async def killed_at(monkeypatch: pytest.MonkeyPatch, write: int) -> AsyncIterator[None]:
    """End the listener in its n-th write: after what it sends is durable, before it knows."""
    sent, left = ItemLog._sent, [write]

    async def deadly(self: ItemLog, records: Any) -> Any:
        done = await sent(self, list(records))
        left[0] -= 1
        if left[0] <= 0:
            raise KilledError
        return done

    with monkeypatch.context() as patched:
        patched.setattr(ItemLog, "_sent", deadly)
        yield


async def test_ended_at_any_write_and_with_texts_rendered_anew_meanwhile_no_item_is_lost_or_news_twice(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(7)
    told: dict[str, list[Report]] = {f"s{n}": [recent(i, id=f"{n}-{i}") for i in range(60)] for n in range(5)}
    async with Newsroom() as room:
        for round_, write in enumerate([1, 3, 4, 5, 7, 9]):
            shown = {name: items[: 10 * (round_ + 1)] for name, items in told.items()}
            room.feeds = {
                n: [replace(i, text=i.text + rng.choice(["", " Share.", " 2 min read."])) for i in items]
                for n, items in shown.items()
            }
            sources = [room.source(name) for name in told]
            async with killed_at(monkeypatch, write):
                with pytest.raises(KilledError):
                    await world.look(*sources)
        room.feeds = told
        await world.look(*sources)
        await world.look(*sources)
    times = Counter((one.source, one.external_id, one.text_hash) for one in await world.news())
    cases = Counter(one[:2] for one in times)
    assert len(cases) == 300 and set(cases.values()) == {1}


async def test_a_listener_whose_successor_has_started_writes_nothing_more(world: World) -> None:
    first, second = (ItemLog(world.address, world.topics, KEY) for _ in "ab")
    cursor = SourceCursor(source="s", looked_at=datetime.now(UTC), state="blocked")
    try:
        await first.start(["s"])
        await first.record([], [], SourceCursor(source="s", looked_at=datetime.now(UTC)))
        await second.start(["s"])
        with pytest.raises(ProducerFenced):
            await first.record([(b"s:1", b"{}")], [], cursor)
        assert await world.news() == []
        assert (await remembered_in(world.address, world.topics)).cursors["s"].state == "ok"
        await second.record([], [], cursor)
    finally:
        await first.stop()
        await second.stop()


class Stream(SourceServer):
    """A WebSocket source: sends what is queued to whoever is connected; None drops the connection. ``history`` is its REST side."""

    def __init__(self) -> None:
        super().__init__(lambda _path: Answer(body=orjson.dumps(self.history)), {"ws": self._ws})
        self.queued: asyncio.Queue[bytes | str | None] = asyncio.Queue()
        self.history: list[dict[str, Any]] = []
        self.pongs: list[str] = []

    async def _ws(self, ws: web.WebSocketResponse) -> None:
        while (message := await self.queued.get()) is not None:
            await (ws.send_str(message) if isinstance(message, str) else ws.send_bytes(message))
            if message == "ping":
                self.pongs.append(await ws.receive_str())


async def test_one_look_at_a_socket_takes_its_first_message_or_says_that_none_came(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    async def serve(request: web.Request) -> web.WebSocketResponse:
        ws = web.WebSocketResponse()
        await ws.prepare(request)
        if request.path == "/talks":
            asked.extend([request.headers["x-api-key"], await ws.receive_str()])
            await ws.send_str('{"title": "Exchange halts withdrawals"}')
        async for _ in ws:
            pass
        return ws

    app = web.Application()
    app.add_routes([web.get("/{name}", serve)])
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    row = Source(
        id="talks", kind="socket", url=f"ws://127.0.0.1:{runner.addresses[0][1]}/talks", private=True, title="title",
        key="PHOENIX_API_KEY", headers={"x-api-key": "{key}"}, subscribe="login {key}",
    )  # fmt: skip
    silent = replace(row, id="silent", url=row.url.replace("talks", "silent"))
    fetcher, health = Fetcher(keys={"PHOENIX_API_KEY": "k"}), {}
    for source, within_s in ((row, 60.0), (silent, 0.05)):
        monkeypatch.setattr(listener_module, "FIRST_MESSAGE_WITHIN_S", within_s)
        health |= await Listener(world.address, world.topics, lambda one=source: [one], fetcher, Options(), KEY).once()
    await runner.cleanup()
    await fetcher.close()
    assert asked == ["k", "login k"] and (health["talks"].state, health["talks"].counts) == ("ok", {"new": 1})
    assert (health["silent"].state, health["silent"].why) == ("ok", "connected, and nothing was sent within 0.05 s")
    assert [one.source for one in await world.news()] == ["talks"]


async def test_a_socket_is_heard_answers_pings_and_after_a_drop_what_was_missed_is_looked_up(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener_module, "SOCKET_PAUSES_S", (0.01, 60.0))

    def told(number: int) -> dict[str, Any]:
        return {
            "_id": str(number),
            "title": f"Event {number} of a socket",
            "time": int(datetime.now(UTC).timestamp() * 1000),
        }

    one, two, three = (told(n) for n in range(1, 4))
    async with Stream() as stream:
        source = Source(
            id="stream", kind="socket", url=f"{stream.url.replace('http', 'ws')}/ws", private=True, item_id="_id", title="title",
            published="time", ping="ping", pong="pong", refill=f"{stream.url}/rest", refill_items="[]", robots=False,
        )  # fmt: skip
        listener = Listener(world.address, world.topics, lambda: [source], world.fetcher, Options(jitter=0), KEY)
        running = asyncio.create_task(listener.run())
        for message in ("ping", orjson.dumps(one), "no json", b'{"hello": 1}', None):
            stream.queued.put_nowait(message)
        stream.history = [one, two]
        stream.queued.put_nowait(orjson.dumps(three).decode())
        async with asyncio.timeout(60):
            while len(found := await world.news()) < 3:  # noqa: ASYNC110 - the log tells no event
                await asyncio.sleep(0.05)
        listener.stop()
        stream.queued.put_nowait(None)
        await running
    assert sorted(one.external_id or "" for one in found) == ["1", "2", "3"] and stream.pongs == ["pong"]
    assert listener.health["stream"].counts["new"] == 3 and listener.health["stream"].counts["refused"] == 1
