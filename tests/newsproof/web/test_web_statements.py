"""Statements that take their time, without any database."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.requests import Request

from newsproof.web.api import analytics
from newsproof.web.api.analytics import held_slot, unless_disconnected
from newsproof.web.responses import Refused


async def test_whoever_finds_no_place_is_told_so_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analytics, "PLACE_WITHIN_S", 0.01)
    places = asyncio.Semaphore(1)
    async with held_slot(places):
        with pytest.raises(Refused, match="other statements are running"):
            async with held_slot(places):
                raise AssertionError("two hold one place")
    async with held_slot(places):
        assert places.locked()


def asked_by(gone: asyncio.Event) -> Request:
    async def receive() -> dict[str, Any]:
        await gone.wait()
        return {"type": "http.disconnect"}

    return Request({"type": "http", "headers": []}, receive)


async def test_what_nobody_waits_for_any_more_is_ended() -> None:
    gone, begun, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def work() -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            ended.set()

    asking = asyncio.create_task(unless_disconnected(asked_by(gone), work()))
    await begun.wait()
    gone.set()
    with pytest.raises(Refused):
        await asking
    assert ended.is_set()


async def test_whoever_stays_gets_the_answer() -> None:
    assert await unless_disconnected(asked_by(asyncio.Event()), asyncio.sleep(0, "answer")) == "answer"
