"""Routes of bots: what they hold, sent and refused; and their halts. Bots themselves run as processes of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response

from infra.bots.definition import BotDefinition
from infra.redaction import redacted
from newsproof.app.processes.bots import bots_of, halt, resume
from newsproof.app.processes.bots_view import halts_of, names_of
from newsproof.web.api.live import backend_of
from newsproof.web.backend import Backend
from newsproof.web.responses import Refused, StrictBody, as_json
from schemas.errors import ConfigError
from streams.journal.clock import utc_now

router = APIRouter(prefix="/api/v1/bots", tags=["bots"])

READ_WITHIN_S = 20.0
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
    cannot be used. `desired`: the positions that live signals ask for, whether one is `held`, and the `state` and `reason` of
    its delivery, if there is one; null: not known here. A position is open, or may be (`outcome` is not `delivered`); its
    `exit` is not confirmed. `mark`: the price at which an open paper position could be closed; null: `no_mark` says why none
    is known. Profits are shares of one stake: of the closed paper trades, and of the open ones (null: a price is missing).
    """
    backend = backend_of(request)
    (defined, wrong), (processes, _) = _defined(backend), await backend.processes.look()
    states = {process.name: process.state for process in processes if process.kind == "bot"}
    async with _reading_in_time():
        items = await backend.bots.items(defined, states)
        halts = halts_of(await backend.bots.deliveries.read(), None)
    return as_json({"at": utc_now(), "wrong": wrong, "halts": halts, "items": items})


@router.post("/halt")
async def halt_bots(request: Request, wanted: Halt) -> Response:
    """Stop new entries, and orders to people, of one bot, or of all.

    A running bot obeys within two seconds, a stopped bot when it starts. Exits, retractions and other messages continue.
    """
    backend = backend_of(request)
    await _refuse_unknown(backend, wanted.bot)
    return as_json(await halt(backend.address, backend.topics, wanted.bot, exit=wanted.exit, by=BY))


@router.post("/resume")
async def resume_bots(request: Request, wanted: Resume) -> Response:
    """End the halt of one bot, or all halts. A halt of all bots holds each until all halts are ended."""
    backend = backend_of(request)
    await _refuse_unknown(backend, wanted.bot)
    return as_json(await resume(backend.address, backend.topics, wanted.bot, by=BY))


async def _refuse_unknown(backend: Backend, name: str | None) -> None:
    if name is None or name in (defined := _defined(backend)[0]):
        return
    async with _reading_in_time():
        names = names_of(defined, await backend.bots.deliveries.read())
    if name not in names:
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


@asynccontextmanager
async def _reading_in_time() -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(READ_WITHIN_S):
            yield
    except TimeoutError as exc:
        raise Refused(503, "the log could not be read in time", "try again: reading continues from there") from exc
