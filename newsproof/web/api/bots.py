"""Routes of bots: what they hold, sent and refused; and their halts. Bots themselves run as processes of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response

from infra.bots.definition import BotDefinition
from infra.bots.paper import paper_book
from infra.redaction import redacted
from newsproof.app.processes.bots import bots_of, halt, resume
from newsproof.web.api.live import backend_of
from newsproof.web.backend import Backend
from newsproof.web.responses import Refused, StrictBody, as_json
from schemas.deliveries import DeliveryRecord
from schemas.errors import ConfigError
from streams.bots.book import Book, Delivery
from streams.journal.clock import utc_now

router = APIRouter(prefix="/api/v1/bots", tags=["bots"])

READ_WITHIN_S = 20.0
SHOWN = 20
"""Maximum number of deliveries and of paper trades per bot in a response: the newest."""
BY = "the web service"


class Halt(StrictBody):
    """Which bots to halt. `bot`: a bot's name; null: all bots. `exit`: close their positions, too."""

    bot: str | None = Field(max_length=32)
    exit: bool = False


class Resume(StrictBody):
    """Which halt to end. `bot`: a bot's name; null: all halts."""

    bot: str | None = Field(max_length=32)


@router.get("")
async def bots(request: Request) -> Response:
    """Return every bot: those of BOTS_FILE, and others with deliveries in the last 62 days.

    `process` is the state of its process in this data directory; null: none is known here. `wrong` says why BOTS_FILE
    cannot be used. A position is open, or may be (`outcome` is not `delivered`); its `exit` is not confirmed.
    `profit` is the sum over closed paper trades, in shares of one stake.
    """
    backend = backend_of(request)
    (processes, _), book = await asyncio.gather(backend.processes.look(), _book(backend))
    states = {one.name: one.state for one in processes if one.kind == "bot"}
    return as_json(document(*_defined(backend), states, book))


@router.post("/halt")
async def halt_bots(request: Request, wanted: Halt) -> Response:
    """Stop new entries of one bot, or of all. A running bot obeys within two seconds, another one when it starts.

    Messages to people continue.
    """
    backend = backend_of(request)
    await _refuse_unknown(backend, wanted.bot)
    bot = _defined(backend)[0].get(wanted.bot or "")
    if bot is not None and bot.kind == "notify":
        raise Refused(409, f"{bot.name} sends messages, which no halt stops", "stop its process to end them")
    return as_json(await halt(backend.address, backend.topics, wanted.bot, exit=wanted.exit, by=BY))


@router.post("/resume")
async def resume_bots(request: Request, wanted: Resume) -> Response:
    """End the halt of one bot, or all halts. A halt of all bots holds each until all halts are ended."""
    backend = backend_of(request)
    await _refuse_unknown(backend, wanted.bot)
    return as_json(await resume(backend.address, backend.topics, wanted.bot, by=BY))


async def _refuse_unknown(backend: Backend, name: str | None) -> None:
    if (
        name is not None
        and name not in (defined := _defined(backend)[0])
        and name not in _names(defined, await _book(backend))
    ):
        raise Refused(
            404, f"there is no bot {name!r}", "see GET /api/v1/bots for all of them, or send null for all bots"
        )


def _defined(backend: Backend) -> tuple[dict[str, BotDefinition], str | None]:
    """Return the definitions, and why there are none: a wrong file must not take the button away that halts."""
    if not backend.settings.bots_file.exists():
        return {}, None
    try:
        return bots_of(backend.settings), None
    except ConfigError as exc:
        return {}, redacted(str(exc))


async def _book(backend: Backend) -> Book:
    try:
        async with asyncio.timeout(READ_WITHIN_S):
            return await backend.deliveries.read()
    except TimeoutError as exc:
        raise Refused(
            503, "the deliveries could not be read in time", "try again: reading continues from there"
        ) from exc


def document(
    defined: Mapping[str, BotDefinition], wrong: str | None, processes: Mapping[str, str], book: Book
) -> dict[str, Any]:
    """Return the response of :func:`bots`. ``processes``: name of a bot's process → its state."""
    items = [_shown(name, defined.get(name), processes.get(f"bot-{name}"), book) for name in _names(defined, book)]
    return {"at": utc_now(), "wrong": wrong, "halts": _halts(book, None), "items": items}


def _names(defined: Mapping[str, BotDefinition], book: Book) -> list[str]:
    return list(dict.fromkeys([*defined, *sorted({one.planned.bot for one in book.deliveries.values()})]))


def _shown(name: str, bot: BotDefinition | None, process: str | None, book: Book) -> dict[str, Any]:
    own = [one for one in book.deliveries.values() if one.planned.bot == name]
    trades = paper_book(_records(own), name)
    closed = [one.profit for one in trades if one.profit is not None]
    return {
        "name": name,
        "defined": bot is not None,
        "kind": own[-1].planned.adapter if bot is None else bot.kind,
        "mode": own[-1].planned.mode if bot is None else bot.mode,
        "process": process,
        "halts": _halts(book, name),
        "positions": [_position(one, book) for one in book.positions() if one.planned.bot == name],
        "deliveries": [_delivery(one) for one in sorted(own, key=_changed_ms)[: -SHOWN - 1 : -1]],
        "paper": {"closed": len(closed), "profit": sum(closed), "trades": trades[: -SHOWN - 1 : -1]}
        if trades
        else None,
    }


def _records(deliveries: list[Delivery]) -> Iterator[DeliveryRecord]:
    for one in deliveries:
        yield one.planned
        if one.settled is not None:
            yield one.settled


def _halts(book: Book, bot: str | None) -> list[dict[str, Any]]:
    """Return the halt of this bot alone; of None, that of all bots. A list, since there may be none."""
    found = book.halts.get(bot)
    return [] if found is None else [{"by": found.by, "exit": found.exit, "at": _at(book.halted_ms[bot])}]


def _position(entry: Delivery, book: Book) -> dict[str, Any]:
    exit = book.exit_of(entry.planned.id)
    return _of_planned(entry) | {
        "since": _at(entry.attempted_ms),
        "outcome": entry.outcome,
        "exit": None
        if exit is None
        else {"since": _at(exit.planned_ms), "why": exit.planned.reason, "attempts": exit.n, "state": exit.state}
        | {"reason": "" if exit.settled is None else exit.settled.reason},
    }


def _delivery(one: Delivery) -> dict[str, Any]:
    return _of_planned(one) | {
        "intent": one.planned.intent,
        "why": one.planned.reason,
        "state": one.state,
        "reason": "" if one.settled is None else one.settled.reason,
        "price": None if one.settled is None else one.settled.price,
        "attempts": one.n,
        "at": _at(_changed_ms(one)),
    }


def _of_planned(one: Delivery) -> dict[str, Any]:
    names = ("id", "adapter", "mode", "instrument", "asset", "side", "signal_id", "revision")
    return {name: getattr(one.planned, name) for name in names}


def _changed_ms(one: Delivery) -> int:
    return max(one.planned_ms, one.attempted_ms, one.settled_ms)


def _at(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
