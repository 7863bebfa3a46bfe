"""Routes of the operations page, and of dead letters and their requeueing."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from newsproof.app.dead_letters import DeadLetter, Standing, standing_of
from newsproof.web.api.live import backend_of
from newsproof.web.backend import Backend
from newsproof.web.operations import operations as operations_of
from newsproof.web.responses import Refused, StrictBody, as_json
from schemas.errors import TransientError
from streams.journal.clock import utc_now

router = APIRouter(prefix="/api/v1", tags=["operations"])

READ_WITHIN_S = 3.0
"""Maximum wait of a response for the dead letters to be read. The reading continues."""
MOST_AT_ONCE = 1_000
Reason = Annotated[
    str | None, Query(max_length=200, description="Only dead letters with this reason, such as not_json.")
]


@router.get("/operations")
async def operations(request: Request) -> Response:
    """Return the state of the installation: processes, lag, open cases, dead letters, budget, breakers, the last audit.

    An unknown metric is null. `problems` names the metrics beyond their `limits`.
    """
    backend = backend_of(request)
    (processes, figures), letters = await asyncio.gather(backend.processes.look(), _letters_soon(backend))
    known = backend.feed.ready and not backend.feed.away
    overview = operations_of(
        processes,
        figures,
        topics=backend.topics,
        letters=letters,
        cases=backend.feed.recent_cases() if known else None,
        now=utc_now(),
    )
    return as_json(overview | {"status": await backend.status()})


async def _letters_soon(backend: Backend) -> list[DeadLetter] | None:
    try:
        async with asyncio.timeout(READ_WITHIN_S):
            return await backend.dead_letters()
    except (TransientError, TimeoutError):
        return None


@router.get("/dead-letters")
async def dead_letters(
    request: Request,
    reason: Reason = None,
    standing: Annotated[Standing | None, Query(description="Only dead letters with this standing.")] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
    offset: Annotated[int, Query(ge=0, description="Number of newest dead letters to skip.")] = 0,
) -> Response:
    """Return dead letters, newest first, and their number. Only the beginning of each original record is included."""
    backend = backend_of(request)
    news = backend.topics.news
    fitting = [
        (letter, stands)
        for letter in reversed(await backend.dead_letters())
        if reason in (None, letter.reason) and (stands := standing_of(letter, news)) and standing in (None, stands)
    ]
    items = [_shown(letter) | {"standing": stands} for letter, stands in fitting[offset : offset + limit]]
    return as_json({"items": items, "count": len(fitting)})


def _shown(letter: DeadLetter) -> dict[str, Any]:
    return {
        name: getattr(letter, name) for name in ("id", "at", "reason", "why", "consumer", "topic", "case", "preview")
    }


class Requeue(StrictBody):
    """Dead letters by ID, or all pending ones with this reason."""

    ids: list[Annotated[str, Field(max_length=40)]] = Field([], max_length=MOST_AT_ONCE)
    reason: str | None = Field(None, max_length=200)


@router.post("/dead-letters/requeue")
async def requeue(request: Request, wanted: Requeue) -> Response:
    """Send dead letters to `news` again, as `newsproof dlq requeue` does. Idempotent: those already sent are skipped.

    `requeued`: ids that were sent. `skipped`: ids that were not, each with its standing. At most 1,000 at once; `left`
    is the number of dead letters with this reason still pending.
    """
    backend = backend_of(request)
    if bool(wanted.ids) == (wanted.reason is not None):
        raise Refused(400, "the body names no dead letters, or both ids and a reason", "send either `ids` or `reason`")
    async with backend.requeueing:
        known = {letter.id: letter for letter in await backend.dead_letters()}
        if unknown := [id for id in wanted.ids if id not in known]:
            raise Refused(404, f"there is no dead letter {unknown[0]!r}", "see /api/v1/dead-letters for all of them")
        ids = wanted.ids or [letter.id for letter in known.values() if letter.reason == wanted.reason]
        stands = {id: standing_of(known[id], backend.topics.news) for id in ids}
        waiting = {known[id].case or id: known[id] for id, standing in stands.items() if standing == "waiting"}
        sent = list(waiting.values())[:MOST_AT_ONCE]
        await backend.letters.send(await backend.letters.whole(sent))
        await backend.dead_letters()  # so that they count as sent from now on
    skipped = {id: standing for id, standing in stands.items() if standing != "waiting"} if wanted.ids else {}
    return as_json({"requeued": [letter.id for letter in sent], "skipped": skipped, "left": len(waiting) - len(sent)})
