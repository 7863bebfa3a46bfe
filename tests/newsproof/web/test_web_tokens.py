"""The token: kept where nobody else reads it, asked for everywhere, exchanged for a session that ends, and not to be guessed in peace."""

from __future__ import annotations

import errno
import multiprocessing
import os
from pathlib import Path
from typing import Any

import pytest
from starlette.datastructures import Headers

from infra.redaction import redacted
from infra.settings import Settings
from newsproof.web import service
from newsproof.web.limits import Rates
from newsproof.web.tokens import SESSION_S, Tokens, cookie_name, opened_with, token_of
from schemas.errors import ConfigError
from tests.newsproof.web.conftest import Serving
from tests.newsproof.web.test_web_guard import TOKEN, asking, settings_of

pytestmark = pytest.mark.security


def kept_in(directory: Path, **more: Any) -> Settings:
    return settings_of(newsproof_data_dir=directory, **more)


def test_on_loopback_a_token_is_made_once_and_kept_for_its_owner_alone(tmp_path: Path) -> None:
    settings = kept_in(tmp_path / "data")
    token = token_of(settings)
    file = tmp_path / "data" / "web-token"
    assert len(token) >= 32 and file.read_text() == token + "\n"
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert [one.name for one in file.parent.iterdir()] == ["web-token"]
    assert token_of(settings) == token, "it is the same at the next start"
    assert token_of(kept_in(tmp_path / "other")) != token
    assert redacted(f"GET /?token={token}") == "GET /?token=[secret]", "no log shows it from here on"


def test_processes_that_start_at_once_keep_one_token(tmp_path: Path) -> None:
    with multiprocessing.get_context("fork").Pool(4) as pool:
        assert len(set(pool.map(token_of, [kept_in(tmp_path / "data")] * 16))) == 1


def test_a_kept_token_that_is_none_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "web-token").write_text("\n")
    with pytest.raises(ConfigError, match=r"web-token holds no secret that Newsproof made .* delete it"):
        token_of(kept_in(tmp_path))
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="make it readable and writable, or set WEB_TOKEN"):
        token_of(kept_in(tmp_path / "file"))


def test_what_others_could_read_is_closed_and_what_they_prepared_is_not_believed(tmp_path: Path) -> None:
    file = tmp_path / "web-token"
    file.write_text("k" * 32 + "\n")
    file.chmod(0o644)
    assert token_of(kept_in(tmp_path)) == "k" * 32 and file.stat().st_mode & 0o777 == 0o600
    file.rename(tmp_path / "prepared")
    file.symlink_to("prepared")
    with pytest.raises(ConfigError, match="web-token cannot be read"):
        token_of(kept_in(tmp_path))


def test_on_a_file_system_without_links_a_token_is_kept_all_the_same_and_nothing_else_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    token = token_of(kept_in(tmp_path))
    assert (tmp_path / "web-token").read_text() == token + "\n" and token_of(kept_in(tmp_path)) == token
    assert [(one.name, one.stat().st_mode & 0o777) for one in tmp_path.iterdir()] == [("web-token", 0o600)]


def test_a_token_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(ConfigError, match=r"No space left on device.*make it readable and writable, or set WEB_TOKEN"):
        token_of(kept_in(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_beyond_loopback_a_token_has_to_be_set(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="WEB_TOKEN is not set: set it"):
        token_of(kept_in(tmp_path, web_host="0.0.0.0"))
    assert token_of(kept_in(tmp_path, web_host="0.0.0.0", web_token=TOKEN)) == TOKEN
    assert list(tmp_path.iterdir()) == [], "nothing is kept of a token that is set"


def test_only_a_terminal_is_told_the_kept_token_and_nobody_one_that_was_set(tmp_path: Path) -> None:
    here = "http://127.0.0.1:8700/"
    assert opened_with(here, kept_in(tmp_path), "kept", terminal=True) == f"{here}?token=kept"
    elsewhere = opened_with(here, kept_in(tmp_path), "kept", terminal=False)
    assert elsewhere == f"{here}  (log in with the token in {tmp_path / 'web-token'})"
    for terminal in (True, False):
        assert opened_with(here, kept_in(tmp_path, web_token=TOKEN), TOKEN, terminal=terminal) == here


async def test_on_loopback_nobody_gets_in_without_the_token(serving: Serving, tmp_path: Path) -> None:
    async with serving() as http:
        assert (await http.get("/api/v1/status")).status_code == 200
        del http.headers["authorization"]
        asked = {path: (await http.get(path)).status_code for path in ("/api/v1/status", "/openapi.json", "/", "/docs")}
        assert asked == {"/api/v1/status": 401, "/openapi.json": 401, "/": 303, "/docs": 303}
        assert (await http.post("/api/v1/sql", json={"query": "SELECT 1"})).status_code == 401
        assert (await http.get("/healthz")).status_code == 200, "whether it is well is told to everybody"
        told = await http.get("/", params={"token": (tmp_path / "web-token").read_text().strip()})
        assert (
            told.headers["location"] == "/" and f"newsproof_session_{http.base_url.port}=" in told.headers["set-cookie"]
        )
        assert (await http.get("/api/v1/status")).status_code == 200


async def test_what_the_service_logs_at_its_start_does_not_hold_the_token(
    serving: Serving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    class Heard:
        def info(self, *words: Any, **more: Any) -> None:
            said.append(f"{words} {more}")

    monkeypatch.setattr(service, "log", Heard())
    async with serving():
        pass
    assert said and "web starts" in said[0] and (tmp_path / "web-token").read_text().strip() not in "".join(said)


# Sessions


class Clock:
    """Unix time as a test sets it."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


def cookie_of(tokens: Tokens, port: int = 8700) -> str:
    return tokens.cookie(port, secure=False).partition(";")[0]


def admits(tokens: Tokens, cookie: str, port: int = 8700) -> bool:
    return tokens.admits(Headers({"cookie": cookie}), port)


def test_a_session_holds_for_seven_days_and_its_end_cannot_be_moved() -> None:
    clock = Clock()
    tokens = Tokens(TOKEN, Rates(5), now=clock)
    cookie = cookie_of(tokens)
    until, proof = cookie.partition("=")[2].split(".")
    assert int(until) == clock.now + SESSION_S and SESSION_S == 7 * 24 * 3600
    assert TOKEN not in cookie and f"Max-Age={SESSION_S}" in tokens.cookie(8700, secure=False)
    assert admits(tokens, cookie)
    for forged in (
        f"{int(until) + 1}.{proof}",
        f".{proof}",
        proof,
        f"{until}.",
        f"{until}.{proof[:-1]}",
        "²." + proof,
        "",
    ):
        assert not admits(tokens, f"{cookie_name(8700)}={forged}"), forged
    clock.now += SESSION_S - 1
    assert admits(tokens, cookie)
    clock.now += 1
    assert not admits(tokens, cookie)


def test_a_new_token_ends_every_session() -> None:
    cookie = cookie_of(Tokens(TOKEN, Rates(5)))
    assert admits(Tokens(TOKEN, Rates(5)), cookie)
    assert not admits(Tokens(TOKEN + "x", Rates(5)), cookie)


def test_a_session_is_of_one_port_and_no_other_cookie_of_the_host_hides_it() -> None:
    tokens = Tokens(TOKEN, Rates(5))
    cookie = cookie_of(tokens)
    assert cookie.startswith("newsproof_session_8700=") and not admits(tokens, cookie, port=8701)
    for around in (
        "a=b; {}",
        'odd="[\\; {}',
        "=; ;;{};",
        "newsproof_session_8700=tossed; {}",
        "\xff@()=1; {}; newsproof_session_8700=x",
    ):
        assert admits(tokens, around.format(cookie)), around


def test_only_over_tls_a_session_is_secure() -> None:
    tokens = Tokens(TOKEN, Rates(5))
    assert tokens.cookie(1, secure=True).endswith("; Secure") and "Secure" not in tokens.cookie(1, secure=False)


# Guessing

GUESSES: dict[str, dict[str, Any]] = {
    "an address": {"params": {"token": "a guess"}},
    "an encoded address": {"url": "/live?%74o%6ben=a%20guess"},
    "a bearer": {"headers": {"authorization": "Bearer a guess"}},
    "a bearer of another spelling": {"headers": {"authorization": "bEARER  a guess"}},
    "a cookie": {"headers": {"cookie": "newsproof_session_8700=9999999999.aa"}},
    "a cookie behind others": {"headers": {"cookie": 'a="; newsproof_session_8700=1.b'}},
    "an API without anything": {"url": "/api/v1/status"},
    "a login": {"method": "POST", "url": "/login", "data": {"token": "a guess"}},
}


@pytest.mark.parametrize("guess", GUESSES.values(), ids=GUESSES)
async def test_whoever_tries_tokens_is_slowed_down_and_the_right_one_is_admitted_all_the_same(
    guess: dict[str, Any],
) -> None:
    asked = {"method": "GET", "url": "/live", **guess}
    async with asking(settings_of(web_requests_per_minute=5), known=False) as http:
        statuses = [(await http.request(**asked)).status_code for _ in range(6)]
        assert statuses[-1] == 429 and len(set(statuses[:5])) == 1 and statuses[0] in (303, 401, 403)
        right = {"authorization": f"Bearer {TOKEN}"}
        assert (await http.get("/api/v1/status", headers=right)).status_code == 200
        assert (await http.get("/live", params={"token": TOKEN})).headers["location"] == "/live"
        http.cookies.clear()
        assert (await http.post("/login", data={"token": TOKEN})).status_code == 303
        assert (await http.get("/api/v1/status")).status_code == 200, "by the session of that login"


async def test_pages_without_a_session_lead_to_the_login_and_count_for_nothing() -> None:
    async with asking(settings_of(web_requests_per_minute=2), known=False) as http:
        assert {(await http.get("/live", headers={"cookie": "theme=dark"})).status_code for _ in range(9)} == {303}
