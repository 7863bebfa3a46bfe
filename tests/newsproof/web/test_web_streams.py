"""Event streams as connections: a slow client is cut off and costs nothing, one that leaves is let go, an end is an end."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.types import Message

from newsproof.web import responses
from newsproof.web.limits import ConnectionLimit
from newsproof.web.responses import Refused
from streams.feed import live, sse
from tests.newsproof.signal_samples import signal, write_signals
from tests.newsproof.web.conftest import Serving
from tests.newsproof.web.reading import streaming
from tests.newsproof.web.test_web_research import CHAT
from tests.streams.world import World


async def slow_client(http: httpx.AsyncClient, path: str) -> socket.socket:
    """A connection that has asked for a stream, and reads nothing of it. Its own buffer is as small as can be."""
    at = urlsplit(str(http.base_url))
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
    sock.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(sock, (at.hostname, at.port))
    known = http.headers["authorization"]
    asked = f"GET {path} HTTP/1.1\r\nHost: {at.netloc}\r\nAuthorization: {known}\r\n\r\n"
    await loop.sock_sendall(sock, asked.encode())
    return sock


async def may_open(http: httpx.AsyncClient) -> bool:
    """Whether there is a place for one more stream."""
    async with http.stream("GET", "/api/v1/stream") as response:
        return response.status_code == 200


@pytest.mark.slow
async def test_a_client_that_takes_nothing_is_cut_off_while_the_others_lose_nothing(
    world: World, serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(responses, "SEND_WITHIN_S", 4.0)
    async with serving(web_max_streams=2) as http, streaming(http, "/api/v1/stream") as quick:
        await quick.connected()
        slow = await slow_client(http, "/api/v1/stream")
        loop = asyncio.get_running_loop()
        head = await loop.sock_recv(slow, 12)
        assert head == b"HTTP/1.1 200"
        large = [signal(f"large{n}", notes="x" * 60_000) for n in range(100)]
        reading = asyncio.create_task(quick.until("signal", 100))
        for start in range(0, 100, 20):
            await write_signals(world.address, world.topics, *large[start : start + 20])
        got = await reading
        assert [one.data["data"]["signal_id"] for one in got] == [one.signal_id for one in large]
        await world.until(lambda: may_open(http), 60)  # the place of the slow one is free: it was cut off
        taken = b""
        with contextlib.suppress(ConnectionResetError):
            async with asyncio.timeout(60):
                while more := await loop.sock_recv(slow, 65536):
                    taken += more
        assert len(taken) < 3_000_000 and not taken.endswith(b"0\r\n\r\n"), "no end in order: the rest was dropped"
        slow.close()


async def test_a_client_that_takes_all_but_the_end_gives_its_place_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(responses, "SEND_WITHIN_S", 0.1)
    given_back, for_ever = asyncio.Event(), asyncio.Event()

    async def chunks() -> AsyncIterator[bytes]:
        yield b": the only one\n\n"

    async def receive() -> Message:
        await for_ever.wait()
        return {}

    async def send(message: Message) -> None:
        if not message.get("more_body", True):
            await for_ever.wait()

    stream = responses.Events(chunks(), ending=asyncio.Event(), ended=given_back.set)
    serving = asyncio.create_task(stream({"type": "http", "method": "GET"}, receive, send))
    async with asyncio.timeout(30):
        await given_back.wait()
        await asyncio.wait({serving})
    assert isinstance(serving.exception(), TimeoutError)


async def test_a_stream_that_is_left_gives_its_place_back(world: World, serving: Serving) -> None:
    async with serving(web_max_streams=1) as http:
        async with streaming(http, "/api/v1/stream") as stream:
            await stream.connected()
            refused = await http.get("/api/v1/stream")
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
            assert set(refused.json()) == {"error", "do"}

        await world.until(lambda: may_open(http), 60)


async def test_open_streams_end_in_order_when_the_service_ends(world: World, serving: Serving) -> None:
    opened = asyncio.Event()

    async def watch(http: httpx.AsyncClient) -> int:
        async with streaming(http, "/api/v1/stream") as stream:
            await stream.connected()
            opened.set()
            return len(await stream.rest())

    async with httpx.AsyncClient(timeout=60, trust_env=False) as client:
        async with serving() as http:
            client.base_url, client.headers = http.base_url, http.headers
            watching = asyncio.create_task(watch(client))
            await opened.wait()
        assert await watching == 0  # the chunked body came to its end: anything else would have raised


async def test_a_place_that_is_no_longer_at_hand_is_said_and_the_stream_goes_on(
    world: World, serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "RECENT_RECORDS", 20)
    await write_signals(world.address, world.topics, *(signal(f"g{n}") for n in range(30)))
    async with serving() as http, streaming(http, "/api/v1/stream", last_id="s0.0-c0.0") as stream:
        first = await stream.next()
        assert first is not None and first.event == "gap"
        following = await stream.next()
        assert following is not None and following.event == "signal"
        assert int(following.data["data"]["summary"][1:]) >= 10  # the oldest of the window, not of the log


async def test_a_place_of_another_log_is_said_and_the_stream_goes_on_from_now(
    world: World, serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "REACHED_WITHIN_S", 0.1)
    await write_signals(world.address, world.topics, signal("old"))
    place = "s900.900-c900.900"  # of a data directory that held more
    async with serving() as http, streaming(http, "/api/v1/stream", last_id=place) as stream:
        first = await stream.next()
        assert first is not None and first.event == "gap"
        await write_signals(world.address, world.topics, signal("new"))
        following = await stream.next()
        assert following is not None and following.data["data"]["summary"] == "new"


async def test_a_question_that_gets_no_place_is_not_asked(world: World, serving: Serving) -> None:
    async with serving(web_max_streams=1) as http, streaming(http, "/api/v1/stream") as stream:
        await stream.connected()
        refused = await http.post(CHAT, json={"message": "Is Bitcoin cheap?"})
        assert (refused.status_code, set(refused.json())) == (503, {"error", "do"})
        assert await world.records(world.topics.research) == []


def test_one_client_leaves_places_to_others_and_gives_back_what_it_has_once() -> None:
    places = ConnectionLimit(3, 2)
    first, _ = places.take("a"), places.take("a")
    with pytest.raises(Refused, match="from this address"):
        places.take("a")
    places.take("b")
    with pytest.raises(Refused, match="open on this server"):
        places.take("c")
    first()
    first()
    assert len(places) == 2
    places.take("a")
