"""What stands before the API: names, tokens, rates, sizes, and the headers and errors of every answer."""

from __future__ import annotations

import socket
from typing import Any

import httpx
import pytest

from infra.settings import Settings, load_settings
from newsproof.web.backend import Backend
from newsproof.web.guard import MAX_BODY_BYTES, POLICY
from newsproof.web.limits import Rates
from newsproof.web.server import address_at
from newsproof.web.service import application
from newsproof.web.tokens import Tokens

pytestmark = pytest.mark.security
TOKEN = "a token of some length"
POST: dict[str, Any] = {"method": "POST", "url": "/api/v1/sql", "json": {"query": "SELECT 1"}}


def asking(settings: Settings, *, known: bool = True, **more: Any) -> httpx.AsyncClient:
    """A client of the application itself: nothing is connected, so Kafka and ClickHouse are away. ``known``: it has the token."""
    app: Any = application(Backend(settings), TOKEN)
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    headers = {"authorization": f"Bearer {TOKEN}"} if known else {}
    return httpx.AsyncClient(transport=transport, **{"base_url": "http://127.0.0.1:8700", "headers": headers, **more})


def settings_of(**changes: Any) -> Settings:
    return load_settings(newsproof_mode="offline", kafka_bootstrap_servers="127.0.0.1:1", **changes)


async def test_every_answer_has_the_headers_that_keep_a_page_to_itself() -> None:
    async with asking(settings_of()) as http:
        for path in ("/", "/docs", "/static/favicon.svg", "/healthz", "/api/v1/status", "/nowhere", "/static/../../x"):
            answer = await http.get(path)
            assert answer.headers["content-security-policy"] == POLICY, path
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["referrer-policy"] == "no-referrer"
            assert "server" not in answer.headers


async def test_a_token_is_asked_for_and_taken_as_a_bearer_or_by_a_login() -> None:
    async with asking(settings_of(), base_url="http://desk.example:8700") as http:
        # bound to loopback: only its names count, with a token too
        assert (await http.get("/api/v1/status")).status_code == 421
    everywhere = settings_of(web_token=TOKEN, web_host="0.0.0.0")
    async with asking(everywhere, known=False, base_url="http://desk.example:8700") as http:
        refused = await http.get("/api/v1/status")
        assert (refused.status_code, set(refused.json())) == (401, {"error", "do"})
        assert (await http.get("/openapi.json")).status_code == 401
        assert (await http.request(**POST)).status_code == 401
        for wrong in ("", "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x"):
            assert (await http.get("/api/v1/status", headers={"authorization": wrong})).status_code == 401
        right = {"authorization": f"Bearer {TOKEN}"}
        assert (await http.get("/api/v1/status", headers=right)).status_code == 200
        away = await http.get("/case/x?tab=1")
        assert (away.status_code, away.headers["location"]) == (303, "/login?next=%2Fcase%2Fx%3Ftab%3D1")
        assert (await http.get("/login")).status_code == 200
        assert (await http.post("/login", data={"token": "wrong"})).status_code == 403
        assert "set-cookie" not in (await http.post("/login", data={"token": "wrong"})).headers
        done = await http.post("/login?next=/case/x", data={"token": TOKEN})
        assert (done.status_code, done.headers["location"]) == (303, "/case/x")
        cookie = done.headers["set-cookie"]
        assert "HttpOnly" in cookie and "SameSite=Strict" in cookie and TOKEN not in cookie
        assert (await http.get("/api/v1/status")).status_code == 200  # the client keeps the cookie


@pytest.mark.parametrize("onward", ["https://evil.example/", "//evil.example", "/\\evil.example"])
async def test_a_login_leads_to_this_server_alone(onward: str) -> None:
    async with asking(settings_of(), known=False) as http:
        done = await http.post("/login", params={"next": onward}, data={"token": TOKEN})
        assert done.headers["location"] == "/"


async def test_a_token_in_an_address_is_exchanged_for_the_cookie_and_taken_out_of_it() -> None:
    async with asking(settings_of(), known=False) as http:
        done = await http.get("/research", params={"token": TOKEN, "q": "1"})
        assert (done.status_code, done.headers["location"]) == (303, "/research?q=1")
        assert (await http.get("/api/v1/status")).status_code == 200
        again = await http.get("/research", params={"q": "1", "token": TOKEN})
        assert (again.status_code, again.headers["location"]) == (303, "/research?q=1"), (
            "one who is in keeps it no more"
        )
        stale = await http.get("/research", params={"token": "another"})
        assert (stale.status_code, stale.headers["location"]) == (
            303,
            "/research",
        ) and "set-cookie" not in stale.headers
        async with asking(settings_of(), known=False) as other:
            assert (await other.get("/api/v1/status", params={"token": TOKEN})).status_code == 401


async def test_a_body_that_is_too_large_is_refused_before_it_is_read() -> None:
    async with asking(settings_of()) as http:
        told = await http.post("/api/v1/research/chat", content=b"x" * (256 * 1024 + 1))

        async def untold() -> Any:
            for _ in range(300):
                yield b"x" * 1024

        streamed = await http.post("/api/v1/research/chat", content=untold())
        for answer in (told, streamed):
            assert (answer.status_code, set(answer.json())) == (413, {"error", "do"})


@pytest.mark.parametrize("length", ["\u00b2", "-1", "1e3", ""])
async def test_a_body_of_no_length_is_refused(length: str) -> None:
    async with asking(settings_of()) as http:
        headers = [(b"content-length", length.encode("latin-1")), (b"content-type", b"application/json")]
        answer = await http.post("/api/v1/sql", content=b"{}", headers=headers)
        assert (answer.status_code, set(answer.json())) == (413, {"error", "do"})


async def test_a_token_in_an_address_leads_to_this_server_alone() -> None:
    async with asking(settings_of(), known=False) as http:
        for path in ("//evil.example/", "///evil.example", "/%5C/evil.example", "/\\evil.example"):
            done = await http.send(
                httpx.Request("GET", f"http://127.0.0.1:8700{path}?token={TOKEN.replace(' ', '%20')}")
            )
            assert done.status_code == 303
            assert not done.headers["location"].startswith(("//", "/\\")), path


def test_the_address_that_is_told_can_be_opened() -> None:
    for host, told in (("::1", "[::1]"), ("::", "[::1]"), ("fe80::1", "[fe80::1]"), ("0.0.0.0", "127.0.0.1")):
        with socket.socket() as some:
            some.bind(("127.0.0.1", 0))
            at = settings_of(web_host=host)
            assert address_at(at, some) == f"http://{told}:{some.getsockname()[1]}/"


async def test_whoever_asks_too_often_is_told_when_to_come_back() -> None:
    async with asking(settings_of(web_requests_per_minute=5)) as http:
        statuses = [(await http.get("/api/v1/status")).status_code for _ in range(6)]
        assert statuses == [200] * 5 + [429]
        refused = await http.get("/api/v1/status")
        assert int(refused.headers["retry-after"]) >= 1
        assert (await http.get("/healthz")).status_code == 200


def test_rates_fill_evenly_and_the_clients_known_are_bounded() -> None:
    rates = Rates(60, known=2)
    assert [rates.take("a", 0.0) for _ in range(60)] == [0.0] * 60
    assert rates.take("a", 0.0) == pytest.approx(1.0)
    assert rates.take("a", 1.0) == 0.0
    for name in ("b", "c", "d"):
        rates.take(name, 1.0)
    assert len(rates._buckets) == 2


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/v1/nothing", 404),
        ("/api/v1/signals?limit=0", 400),
        ("/api/v1/signals?min_confidence=2", 400),
        ("/api/v1/signals?stage=golden", 400),
        ("/api/v1/signals?verdict=golden", 400),
        ("/api/v1/cases?state=closed", 400),
        ("/api/v1/cases?before=!!!", 400),
        ("/api/v1/cases/not-an-id", 404),
        ("/api/v1/stream?after=elsewhere", 400),
        ("/api/v1/research/chat/00000000-0000-4000-8000-000000000000?after=x", 400),
        ("/api/v1/report", 503),
        ("/api/v1/report/charts/nothing.svg", 404),
        ("/api/v1/backtests", 503),
        ("/static/nothing.js", 404),
        ("/static/%00", 404),
        ("/static/" + "x" * 5_000, 404),
        ("/case/" + "x" * 5_000, 200),
        ("/api/v1/cases?before=OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTphYg", 400),
        ("/api/v1/stream?after=" + "s" + "9" * 5_000 + "-c1", 400),
        ("/api/v1/research/chat/00000000-0000-4000-8000-000000000000?after=%C2%B2", 400),
        ("/static/%2e%2e/%2e%2e/app.py", 404),
    ],
)
async def test_bad_input_is_answered_with_what_to_do(path: str, status: int) -> None:
    async with asking(settings_of()) as http:
        answer = await http.get(path)
        assert answer.status_code == status, answer.text
        assert answer.headers["content-security-policy"]
        if status == 200:
            return
        assert set(answer.json()) == {"error", "do"}
        assert all(answer.json().values())


async def test_assets_are_revalidated_by_their_content_and_kept_for_ever_under_its_hash() -> None:
    async with asking(settings_of()) as http:
        first = await http.get("/static/favicon.svg")
        assert first.headers["cache-control"] == "no-cache"
        again = await http.get("/static/favicon.svg", headers={"if-none-match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        named = await http.get("/static/favicon.svg", params={"v": first.headers["etag"][1:17]})
        assert "immutable" in named.headers["cache-control"]


async def test_the_documentation_names_every_address_and_loads_nothing_from_elsewhere() -> None:
    async with asking(settings_of()) as http:
        described = (await http.get("/openapi.json")).json()
        assert {"/api/v1/signals", "/api/v1/stream", "/api/v1/research/chat", "/api/v1/sql"} <= set(described["paths"])
        page = (await http.get("/docs")).text
        assert "http://" not in page and "https://" not in page


async def test_an_agent_is_asked_for_the_token_itself_and_held_to_every_limit() -> None:
    settings = settings_of(web_requests_per_minute=5)
    session = {"cookie": Tokens(TOKEN, Rates(5)).cookie(8700, secure=False).partition(";")[0]}
    async with asking(settings, known=False) as http:
        for headers in ({}, session, {"authorization": "Bearer another token of some length"}):
            refused = await http.post("/mcp", json={}, headers=headers)
            assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
        assert (await http.get("/mcp", headers=session)).status_code == 401  # and no page to log in
    async with asking(settings) as http:
        for headers, body, status in (
            ({"host": "evil.example"}, b"{}", 421),
            ({"origin": "https://evil.example"}, b"{}", 403),
            ({}, b" " * (MAX_BODY_BYTES + 1), 413),
        ):
            assert (await http.post("/mcp", content=body, headers=headers)).status_code == status
        statuses = [(await http.get("/mcp")).status_code for _ in range(5)]
        assert statuses == [405, 405, 405, 405, 429]
