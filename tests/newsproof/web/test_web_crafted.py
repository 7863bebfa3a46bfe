"""Requests that no browser sends, byte for byte on real sockets: each is answered as it deserves, and none is a fault of ours."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import pytest
import pytest_asyncio

from infra.settings import Settings
from newsproof.web import server
from newsproof.web.backend import Backend
from newsproof.web.service import application
from tests.newsproof.web.test_web_guard import TOKEN, settings_of

pytestmark = [pytest.mark.security, pytest.mark.asyncio(loop_scope="module")]
WITHIN_S = 30.0
CUT = 0
"""In place of a status: the connection ends without an answer."""


@asynccontextmanager
async def listening(settings: Settings) -> AsyncIterator[int]:
    """A real server of the application, on a free port; nothing is connected behind it."""
    web, found = server.server_of(application(Backend(settings), TOKEN), settings), server.opened(settings)
    found.listen(100)  # whoever comes before it serves waits
    serving = asyncio.create_task(web.serve(sockets=[found]))
    try:
        yield int(found.getsockname()[1])
    finally:
        web.should_exit = True
        await serving
        found.close()


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def port() -> AsyncIterator[int]:
    """One server for every crafted request."""
    async with listening(settings_of(web_port=0, web_requests_per_minute=100_000)) as found:
        yield found


async def status_of(port: int, request: bytes) -> int:
    """The status of the first answer to these bytes; CUT where none comes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(WITHIN_S):
            writer.write(request)
            line = await reader.readline()
    except ConnectionError:
        return CUT
    finally:
        writer.close()
    return int(line.split()[1]) if line else CUT


class Crafted(NamedTuple):
    """What is sent: a head (a Host and the right token are added unless it is raw) and a body."""

    name: str
    status: int
    line: bytes
    headers: bytes = b""
    body: bytes = b""
    raw: bool = False


def sent(one: Crafted, port: int) -> bytes:
    usual = b"" if one.raw else b"Host: 127.0.0.1:%d\r\nAuthorization: Bearer %s\r\n" % (port, TOKEN.encode())
    return one.line + b"\r\n" + usual + one.headers.replace(b"PORT", b"%d" % port) + b"\r\n" + one.body


SQL = b'{"query": "SELECT 1"}'
JSON = b"Content-Type: application/json\r\n"
CASE = b"00000000-0000-4000-8000-000000000000"
LENGTH = b"Content-Length: %d\r\n" % len(SQL)
POST = b"POST /api/v1/sql HTTP/1.1"
AUTH = b"Authorization: Bearer " + TOKEN.encode() + b"\r\n"
GET = b"GET /api/v1/status HTTP/1.1"
CRAFTED = (
    Crafted("a good request", 200, GET),
    Crafted("a good post, while ClickHouse is away", 503, POST, JSON + LENGTH, SQL),
    # The name that is asked for: DNS rebinding
    Crafted("no host", 400, GET, AUTH, raw=True),
    Crafted("an empty host", 421, GET, b"Host:\r\n" + AUTH, raw=True),
    Crafted("another host", 421, GET, b"Host: evil.example\r\n" + AUTH, raw=True),
    Crafted("another host with our port", 421, GET, b"Host: evil.example:PORT\r\n" + AUTH, raw=True),
    Crafted("a host that begins like ours", 421, GET, b"Host: 127.0.0.1.evil.example\r\n" + AUTH, raw=True),
    Crafted("a host with a user in it", 200, GET, b"Host: evil.example@127.0.0.1\r\n" + AUTH, raw=True),
    Crafted("two hosts", 400, GET, b"Host: 127.0.0.1\r\nHost: evil.example\r\n" + AUTH, raw=True),
    Crafted("a host of another spelling of loopback", 421, GET, b"Host: 0x7f.1\r\n" + AUTH, raw=True),
    Crafted("a host that is no UTF-8", 421, GET, b"Host: \xff\xfe\r\n" + AUTH, raw=True),
    Crafted("a broken IPv6 host", 421, GET, b"Host: [::1\r\n" + AUTH, raw=True),
    Crafted("an IPv6 host that is not loopback", 421, GET, b"Host: [::2]:PORT\r\n" + AUTH, raw=True),
    Crafted("loopback by its name", 200, GET, b"Host: localhost:PORT\r\n" + AUTH, raw=True),
    Crafted("loopback over IPv6", 200, GET, b"Host: [::1]:PORT\r\n" + AUTH, raw=True),
    Crafted("the target of a proxy", 404, b"GET http://evil.example/api/v1/status HTTP/1.1"),
    # Pages of other sites: CSRF
    Crafted("a post of our own page", 503, POST, JSON + LENGTH + b"Origin: http://127.0.0.1:PORT\r\nSec-Fetch-Site: same-origin\r\n", SQL),
    Crafted("a post of another origin", 403, POST, JSON + LENGTH + b"Origin: https://evil.example\r\n", SQL),
    Crafted("a post of our name at another port", 403, POST, JSON + LENGTH + b"Origin: http://127.0.0.1:1\r\n", SQL),
    Crafted("a post of no origin that can be named", 403, POST, JSON + LENGTH + b"Origin: null\r\n", SQL),
    Crafted("a post of a broken origin", 403, POST, JSON + LENGTH + b"Origin: http://[\r\n", SQL),
    Crafted("a post that a browser calls cross-site", 403, POST, JSON + LENGTH + b"Sec-Fetch-Site: cross-site\r\n", SQL),
    Crafted("a post that a browser calls same-site", 403, POST, JSON + LENGTH + b"Sec-Fetch-Site: same-site\r\n", SQL),
    Crafted("a post as a form sends it", 400, POST, b"Content-Type: text/plain\r\n" + LENGTH, SQL),
    Crafted("a login of another origin", 403, b"POST /login HTTP/1.1", b"Origin: https://evil.example\r\nContent-Length: 0\r\n"),
    # Files and ids
    Crafted("a file above the assets", 404, b"GET /static/../app.py HTTP/1.1"),
    Crafted("a file above, encoded", 404, b"GET /static/%2e%2e/app.py HTTP/1.1"),
    Crafted("a file above, encoded twice", 404, b"GET /static/%252e%252e/app.py HTTP/1.1"),
    Crafted("a file above, with an encoded slash", 404, b"GET /static/..%2fapp.py HTTP/1.1"),
    Crafted("a file above, with a backslash", 404, b"GET /static/..%5capp.py HTTP/1.1"),
    Crafted("a file above, overlong", 404, b"GET /static/%c0%ae%c0%ae/app.py HTTP/1.1"),
    Crafted("an absolute file", 404, b"GET /static//etc/passwd HTTP/1.1"),
    Crafted("a NUL in a name", 404, b"GET /static/js/main.js%00.png HTTP/1.1"),
    Crafted("a directory", 404, b"GET /static/js HTTP/1.1"),
    Crafted("a name longer than any file's", 404, b"GET /static/" + b"x" * 9_000 + b" HTTP/1.1"),
    Crafted("a way around the token", 404, b"GET /static/../api/v1/status HTTP/1.1", b"Host: 127.0.0.1\r\n", raw=True),
    Crafted("a way around the token, encoded", 404, b"GET /login%2f..%2fapi/v1/status HTTP/1.1", b"Host: 127.0.0.1\r\n", raw=True),
    Crafted("two slashes before the API", 303, b"GET //api/v1/status HTTP/1.1", b"Host: 127.0.0.1\r\n", raw=True),
    Crafted("a case id that leads elsewhere", 404, b"GET /api/v1/cases/..%2f..%2fstatus HTTP/1.1"),
    Crafted("a case id with SQL in it", 404, b"GET /api/v1/cases/%27;DROP%20TABLE%20events;-- HTTP/1.1"),
    Crafted("a case id with a NUL", 400, b"GET /api/v1/cases/" + CASE + b"%00 HTTP/1.1"),
    Crafted("a case id with a line feed, which is read without it", 503, b"GET /api/v1/cases/" + CASE + b"%0a HTTP/1.1"),
    Crafted("a chat id with a header in it", 400, b"GET /api/v1/research/chat/x%0d%0aSet-Cookie:%20a=b HTTP/1.1"),
    Crafted("a query that is no UTF-8, while Kafka is away", 503, b"GET /api/v1/signals?asset=%ff%fe HTTP/1.1"),
    Crafted("a number without an end", 400, b"GET /api/v1/signals?limit=" + b"9" * 9_000 + b" HTTP/1.1"),
    Crafted("a number that is none", 400, b"GET /api/v1/signals?min_confidence=nan HTTP/1.1"),
    Crafted("a last event id of rubbish", 400, b"GET /api/v1/stream HTTP/1.1", b"Last-Event-ID: \xc2\xb2\xff\r\n"),
    # Bodies
    Crafted("a body of one depth after another", 400, POST, JSON + b"Content-Length: 100000\r\n", b"[" * 100_000),
    Crafted("a body that is no UTF-8", 400, POST, JSON + b"Content-Length: 4\r\n", b"\xff\xfe\x00\x01"),
    Crafted("a body that ends within a string", 400, POST, JSON + b"Content-Length: 2\r\n", b'{"'),
    Crafted("no body", 400, POST, JSON + b"Content-Length: 0\r\n"),
    Crafted("a body larger than is said to be taken", 413, POST, JSON + b"Content-Length: 262145\r\n"),
    Crafted("a length of ten digits more than that", 413, POST, JSON + b"Content-Length: 99999999999999999\r\n"),
    # Two readings of one request: smuggling
    Crafted("two lengths", 400, POST, JSON + LENGTH + b"Content-Length: 0\r\n", SQL),
    Crafted("two lengths in one", 400, POST, JSON + b"Content-Length: 5, 21\r\n", SQL),
    Crafted("a length below zero", 400, POST, JSON + b"Content-Length: -1\r\n", SQL),
    Crafted("a length with a sign", 400, POST, JSON + b"Content-Length: +21\r\n", SQL),
    Crafted("a coding that nobody knows", 400, POST, JSON + b"Transfer-Encoding: cow\r\n", SQL),
    Crafted("two codings", 400, POST, JSON + b"Transfer-Encoding: chunked, identity\r\n", b"0\r\n\r\n"),
    Crafted("a chunk without an end to its length", 400, POST, JSON + b"Transfer-Encoding: chunked\r\n", b"f" * 30 + b"\r\n"),
    Crafted("a chunk of no length", 400, POST, JSON + b"Transfer-Encoding: chunked\r\n", b"zz\r\n\r\n"),
    # Heads that are none
    Crafted("a NUL in a header", 400, GET, b"X-A: a\x00b\r\n"),
    Crafted("a space before a colon", 400, GET, b"X-A : b\r\n"),
    Crafted("a folded header", 200, GET, b"X-A: a\r\n b\r\n"),
    Crafted("a target with a space", 400, b"GET /api/v1/status /x HTTP/1.1"),
    Crafted("a target that is no ASCII", 400, b"GET /\xc3\xa9 HTTP/1.1"),
    Crafted("a method that is none", 400, b"G(E)T / HTTP/1.1"),
    Crafted("a method that nobody takes", 403, b"TRACE /api/v1/status HTTP/1.1", b"Origin: https://evil.example\r\n"),
    Crafted("a method of another address", 405, b"DELETE /api/v1/status HTTP/1.1", b"Content-Length: 0\r\n"),
    Crafted("a tunnel", 404, b"CONNECT evil.example:443 HTTP/1.1"),
    Crafted("a version of the future", 200, b"GET / HTTP/3.0"),
    Crafted("the greeting of HTTP/2", 421, b"PRI * HTTP/2.0", b"\r\nSM\r\n", raw=True),
    Crafted("the greeting of TLS", 400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", raw=True),
    Crafted("a head without an end", 400, GET, b"X-A: " + b"a" * 300_000),
    Crafted("headers without an end", 400, GET, b"X-A: b\r\n" * 40_000 + b"X"),
    Crafted("ten thousand cookies", 200, GET, b"Cookie: " + b"a=b; " * 10_000 + b"\r\n"),
    Crafted("an upgrade to a web socket", 200, GET, b"Connection: Upgrade\r\nUpgrade: websocket\r\n"),
    Crafted("addresses of a proxy that nobody named", 200, GET, b"X-Forwarded-For: 1.2.3.4\r\nX-Forwarded-Proto: https\r\n"),
)  # fmt: skip


@pytest.mark.parametrize("crafted", CRAFTED, ids=[one.name for one in CRAFTED])
async def test_a_crafted_request_is_answered_as_it_deserves(port: int, crafted: Crafted) -> None:
    assert await status_of(port, sent(crafted, port)) == crafted.status


# Clients that send slowly


async def rest_of(reader: asyncio.StreamReader) -> bytes:
    """Everything up to the end of the connection, however it ends."""
    got = b""
    try:
        async with asyncio.timeout(WITHIN_S):
            while more := await reader.read(65536):
                got += more
    except ConnectionError:
        pass
    return got


async def begun(port: int, head: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a connection and send this at once: its time runs."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head)
    return reader, writer


WHOLE = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
OWED = {
    "nothing": b"",
    "half a head": WHOLE[:-2],
    "half of a second head": WHOLE + WHOLE[:9],
    "the body of a request that was answered without it": WHOLE[:-2] + b"Content-Length: 9\r\n\r\nx",
}


@pytest.mark.parametrize("owed", OWED.values(), ids=OWED)
async def test_who_does_not_send_the_rest_is_cut_off_and_others_are_answered_meanwhile(
    owed: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "HEAD_WITHIN_S", 1.0)
    async with listening(settings_of(web_port=0)) as port:
        slow = [await begun(port, owed) for _ in range(20)]
        assert await status_of(port, WHOLE) == 200
        answers = [await rest_of(reader) for reader, _ in slow]
        whole = owed.count(b"\r\n\r\n")
        assert {answer.count(b"HTTP/1.1 200") for answer in answers} == {whole}, (
            "they ended, with what was asked in full"
        )
        for _, writer in slow:
            writer.close()


async def test_so_many_half_sent_heads_that_no_place_is_left_end_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HEAD_WITHIN_S", 3.0)  # a busy machine needs most of a second to open so many
    monkeypatch.setattr(server, "_OPEN_CONNECTIONS", 40)
    async with listening(settings_of(web_port=0)) as port:
        slow = [await begun(port, WHOLE[:-2]) for _ in range(45)]
        assert await status_of(port, WHOLE) == 503
        for reader, writer in slow:
            await rest_of(reader)
            writer.close()
        assert await status_of(port, WHOLE) == 200


async def test_a_client_that_is_quick_keeps_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HEAD_WITHIN_S", 0.5)
    async with listening(settings_of(web_port=0)) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        loop = asyncio.get_running_loop()
        started, answered = loop.time(), 0
        while loop.time() - started < 1.2 or answered <= 3:  # twice what one head may take
            writer.write(WHOLE)
            assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 200")
            answered += 1
        writer.close()
