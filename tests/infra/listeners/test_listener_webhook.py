"""Webhooks over a real connection: signed as Standard Webhooks are, and refused where they are not."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import httpx
import orjson
import pytest

import infra.listeners.webhook as module
from infra.listeners.webhook import (
    HookServer,
    application,
    key_of,
    keys_of_hooks,
    news_of_hook,
    signing_headers,
)
from schemas.errors import ConfigError
from schemas.news import decode_news
from tests.infra.fakes.webhooks import SECRET, signed

pytestmark = pytest.mark.security
OTHER = "whsec_" + base64.b64encode(bytes(32)).decode()
STORY = {
    "text": "Exchange halts withdrawals",
    "published_at": "2026-03-10T12:00:00Z",
    "id": 7,
    "source": "somebody else",
}


@pytest.fixture
async def hook() -> AsyncIterator[Callable[..., Any]]:
    taken: list[bytes] = []

    async def accept(value: bytes) -> None:
        decode_news(value, now=datetime.now(UTC))
        taken.append(value)

    keys = keys_of_hooks(f"mine={SECRET}, other={OTHER}")
    server = HookServer(application(keys, accept))
    port = await server.start("127.0.0.1", 0)

    async def send(body: bytes, headers: dict[str, str], source: str = "mine") -> tuple[int, list[bytes]]:
        async with httpx.AsyncClient(trust_env=False) as http:
            url = f"http://127.0.0.1:{port}/hooks/{source}"
            return (await http.post(url, content=body, headers=headers)).status_code, taken

    send.port = port  # type: ignore[attr-defined]
    yield send
    await server.stop()


async def test_a_signed_webhook_becomes_news_of_its_path_received_now(hook: Callable[..., Any]) -> None:
    body = orjson.dumps({"type": "story", "data": STORY})
    status, (value,) = await hook(body, signed(body))
    news = decode_news(value, now=datetime.now(UTC))
    assert (status, news.source, news.external_id, news.text) == (202, "mine", "7", STORY["text"])
    assert news.received_at is not None and (datetime.now(UTC) - news.received_at).total_seconds() < 60
    _, (_, again) = await hook(body, signing_headers(key_of(SECRET), "msg_1", datetime.now(UTC), body))
    assert decode_news(again, now=datetime.now(UTC)).case_id == news.case_id, (
        "a webhook that is sent again opens no second case"
    )


async def test_what_is_not_signed_late_too_large_in_a_taken_name_or_no_news_is_refused(
    hook: Callable[..., Any],
) -> None:
    body, now = orjson.dumps(STORY), datetime.now(UTC).timestamp()
    assert (await hook(body, {}))[0] == 401
    assert (await hook(body + b" ", signed(body)))[0] == 401
    assert (await hook(body, signed(body, key=bytes(32))))[0] == 401
    assert (await hook(body, signed(body), "other"))[0] == 401, "a secret is that of one source"
    assert (await hook(body, signed(body, key=bytes(32)), "other"))[0] == 202
    assert [(await hook(body, signed(body, at=now + off)))[0] for off in (-400, 400)] == [401, 401]
    assert (await hook(body, signed(body), "decrypt"))[0] == 404
    assert (await hook(body, signed(body), "A%20B"))[0] == 404
    big = b" " * 1_100_000
    assert (await hook(big, signed(big)))[0] == 413
    for wrong in (b"[]", b"{", b'{"data": []}', b'{"text": ""}', b'{"text": "x", "published_at": "never"}'):
        status, taken = await hook(wrong, signed(wrong))
        assert (status, len(taken)) == (400, 1)


async def test_who_is_slow_is_cut_off_and_who_comes_when_all_places_are_taken_is_turned_away(
    hook: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    body, port = orjson.dumps(STORY), hook.port  # type: ignore[attr-defined]
    monkeypatch.setattr(module, "HEAD_WITHIN_S", 0.1)
    monkeypatch.setattr(module, "BODY_WITHIN_S", 0.1)
    for begins in (b"", b"POST /hooks/mine HTTP/1.1\r\nhost: x\r\n"):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(begins)
        with suppress(ConnectionResetError):
            assert await reader.read() == b"", begins
        writer.close()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST /hooks/mine HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{")
    assert (await reader.read()).startswith(b"HTTP/1.1 408 ")
    writer.close()
    monkeypatch.setattr(module, "HEAD_WITHIN_S", 60.0)
    monkeypatch.setattr(module, "MOST_CONNECTIONS", 1)
    async with asyncio.timeout(30):
        _, silent = await asyncio.open_connection("127.0.0.1", port)
        with pytest.raises(httpx.TransportError):
            while True:  # until the silent one has taken the place
                await hook(body, {})
        silent.close()
        while True:
            with suppress(httpx.TransportError):
                assert (await hook(body, signed(body)))[0] == 202
                break


def test_a_setting_that_holds_no_hooks_is_refused_by_its_name_and_repeats_no_secret() -> None:
    assert keys_of_hooks(f"mine={SECRET}, other={OTHER}") == {"mine": key_of(SECRET), "other": bytes(32)}
    named = (SECRET, "", f"A B={SECRET}", f"mine={SECRET},mine={OTHER}", f"mine={SECRET},")
    for wrong in (*named, *(f"mine={key}" for key in ("", "whsec_", "whsec_c2hvcnQ=", "whsec_not base64 at all"))):
        with pytest.raises(ConfigError, match="LISTENER_WEBHOOK_SECRET") as refused:
            keys_of_hooks(wrong)
        assert SECRET not in str(refused.value) and "c2hvcnQ" not in str(refused.value)


def test_news_without_an_id_goes_by_the_webhooks_own_and_one_without_a_time_came_out_now() -> None:
    now = datetime(2026, 3, 10, 12, tzinfo=UTC)
    news = decode_news(news_of_hook("mine", "msg_9", b'{"text": "x", "extra": {"flags": ["late"]}}', now), now=now)
    assert (news.external_id, news.published_at, news.extra) == ("msg_9", now, {})
