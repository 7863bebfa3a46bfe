"""Routes of investigations (research a subject, follow the investigation, resume, stop) and of watches, which repeat them."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Path, Query, Request
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field
from starlette.responses import Response

from agents.investigation.subject import MAX_QUESTION, asked
from newsproof.app.research_composition import investigated_as_of, least_limits
from newsproof.app.watches import watch_of
from newsproof.web.api.live import CASE_ID, backend_of
from newsproof.web.api.research import EVENTS, end_early, refuse_hurry, resumed
from newsproof.web.backend import Backend
from newsproof.web.questions import Unconfirmed
from newsproof.web.responses import Refused, StrictBody, as_json
from schemas.research_events import ClaimsCritiqued
from schemas.watches import MAX_SUBJECT
from streams.feed.turns import TurnItem

router = APIRouter(prefix="/api/v1/investigations", tags=["investigations"])

InvestigationId = Annotated[str, Path(pattern=CASE_ID, description="The investigation's id, as POST returned it.")]


class WantedLimits(StrictBody):
    """Limits of the investigation. A missing limit, or one above the settings, takes the settings' value."""

    rounds: int | None = Field(None, ge=1, le=5)
    searches: int | None = Field(None, ge=1, le=50)


class Subject(BaseModel):
    """A subject to research, such as “Monitor DeepSeek's latest developments”.

    `as_of`: use nothing published later. Default: now. `previous`: the investigation to compare with. Default: the
    latest of the same subject. Other fields are ignored.
    """

    model_config = ConfigDict(extra="ignore")

    subject: str = Field(min_length=1, max_length=MAX_QUESTION)
    as_of: AwareDatetime | None = None
    limits: WantedLimits | None = None
    previous: str | None = Field(None, pattern=CASE_ID)


@router.post("", status_code=202)
async def investigate(
    request: Request,
    wanted: Subject,
    idempotency_key: Annotated[
        str | None, Header(max_length=200, description="One key starts one investigation, however often it is sent.")
    ] = None,
) -> Response:
    """Start an investigation. Returns its ID at once; GET with this ID streams its progress."""
    backend = backend_of(request)
    refuse_hurry(request, backend)
    now, most = datetime.now(UTC), wanted.limits
    limits = (None, None) if most is None else (most.rounds, most.searches)
    as_of = wanted.as_of or investigated_as_of(backend.settings, now)
    if as_of > now:
        raise Refused(400, "`as_of` is in the future", "leave it out (default: now), or give a time in the past")
    try:
        event = asked(
            wanted.subject.strip(),
            as_of=as_of,
            config_hash="",
            limits=least_limits(backend.settings, *limits),
            previous=wanted.previous,
        )
    except ValueError as exc:
        raise Refused(400, str(exc).partition(": ")[0], str(exc).partition(": ")[2]) from exc
    key = f"asked {idempotency_key}" if idempotency_key else str(uuid.uuid4())
    try:
        item = await backend.questions.investigate(key, event)
    except Unconfirmed as exc:
        do = f"check GET /api/v1/investigations/{exc.chat_id} before you start it again: an investigation started twice is paid for twice"
        problem = {"error": str(exc), "do": do, "investigation_id": exc.chat_id}
        return as_json(problem, 503, {"retry-after": "5"})
    return as_json(_listed(item), 202, {"location": f"/api/v1/investigations/{item.chat_id}"})


@router.get("")
async def investigations(request: Request, limit: Annotated[int, Query(ge=1, le=500)] = 50) -> Response:
    """Return recent investigations, newest first."""
    return as_json({"items": [_listed(item) for item in backend_of(request).turns.investigations(limit)]})


@router.get(
    "/{investigation_id}",
    response_class=Response,
    responses={**EVENTS, 204: {"description": "Everything was sent."}},
)
async def follow(
    request: Request,
    investigation_id: InvestigationId,
    last_event_id: Annotated[str | None, Header(max_length=40)] = None,
    after: Annotated[str | None, Query(max_length=40, description="Same as Last-Event-ID.")] = None,
) -> Response:
    """Stream `status`, `thought_step`, `brief`, `error` and `done`, from the start or after Last-Event-ID."""
    turns = backend_of(request).turns
    return await resumed(
        request,
        lambda backend: _investigation_of(backend, investigation_id),
        last_event_id or after,
        of="investigation",
        stream=lambda item, at: turns.events(item, after=at),
    )


@router.post("/{investigation_id}/stop", status_code=202)
async def stop(
    request: Request,
    investigation_id: InvestigationId,
    finish: Annotated[
        bool, Query(description="Write a brief from the results so far, instead of ending without one.")
    ] = False,
) -> Response:
    """Stop an investigation on the server. Idempotent. With `finish`, a brief is written from the results so far."""
    backend = backend_of(request)
    item = await _investigation_of(backend, investigation_id)
    return await end_early(
        backend,
        item,
        finish=finish,
        writing=ClaimsCritiqued,
        of="investigation",
        read="read its brief, or start another one",
        instead="start another one",
    )


def _listed(item: TurnItem) -> dict[str, Any]:
    named = {"investigation_id": item.chat_id, "subject": item.subject, "question": item.message}
    return named | {name: getattr(item, name) for name in ("language", "as_of", "asked_at", "watch", "state")}


async def _investigation_of(backend: Backend, investigation_id: str) -> TurnItem:
    item = await backend.turns.find(investigation_id)
    if item is None or item.subject is None:
        raise Refused(
            404, f"there is no investigation {investigation_id}", "start one with POST /api/v1/investigations"
        )
    return item


watching = APIRouter(prefix="/api/v1/watches", tags=["watches"])


class WatchAsked(BaseModel):
    """A watch: `every`, such as 6h (30m to 30d), or `on_news`."""

    subject: str = Field(min_length=1, max_length=MAX_SUBJECT)
    every: str | None = Field(None, max_length=20)
    on_news: bool = False


@watching.get("")
async def watches(request: Request) -> Response:
    """Return every watch, newest first, ended ones last."""
    return as_json({"items": await backend_of(request).watches.views()})


@watching.post("", status_code=201)
async def set_watch(request: Request, asked: WatchAsked) -> Response:
    """Start a watch. It runs at once, then at its interval or on news about the subject."""
    watch = watch_of(asked.subject, asked.every, on_news=asked.on_news, by="web")
    return as_json(await backend_of(request).watches.set(watch), 201)


@watching.post("/{watch_id}/{command}")
async def change(
    request: Request,
    watch_id: Annotated[str, Path(pattern=CASE_ID)],
    command: Literal["pause", "resume", "end"],
) -> Response:
    """Pause, resume or end a watch; return its new state."""
    book = backend_of(request).watches
    if watch_id not in (await book.state()).watches:
        raise Refused(404, f"there is no watch {watch_id}", "see GET /api/v1/watches for all watches")
    return as_json(await book.change(watch_id, command, by="web"))
