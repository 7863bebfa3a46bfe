"""Routes of the research chat: ask, follow the agents, resume, stop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from newsproof.web.api.live import CASE_ID, backend_of
from newsproof.web.backend import Backend
from newsproof.web.guard import client_of
from newsproof.web.questions import Unconfirmed
from newsproof.web.responses import Events, Refused, as_json
from schemas.events import CancelRequested, Event
from schemas.research_events import AgentsReported, ChatMessage, FinishRequested
from streams.feed.turns import TurnItem

router = APIRouter(prefix="/api/v1/research", tags=["research"])

MAX_MESSAGE = 8_000
KEPT_HISTORY = 50
"""Number of latest messages logged with a question; the agents read fewer (``agents.research.agent_calls``)."""
ChatId = Annotated[str, Path(pattern=CASE_ID, description="The turn's id, from X-Chat-Id.")]
Candles = Annotated[bool, Query(description="Also send the price bars, in `candles` of `data_collected`.")]
Format = Annotated[
    Literal["own", "compat"],
    Query(
        alias="format",
        description="`compat` adds the fields of the documented front end: `agent`, `step_id`, `tokens_used`, "
        "`macro_indicators` and others. `task_breakdown`, `sources`, `agent_name` and `confidence_level` then have its shapes.",
    ),
]
EVENTS: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {}}}}


class Message(BaseModel):
    """An earlier message of the chat. Other fields than role and content, such as a front end's ids, are ignored."""

    model_config = ConfigDict(extra="ignore")

    role: Literal["user", "assistant"]
    content: str = Field(max_length=64_000)


class Question(BaseModel):
    """A question. `conversation` is the chat_id of its first turn, `previous` that of the turn before this one.

    The latest 50 messages of `chat_history` are stored with the question; null means none. Other fields are ignored.
    """

    model_config = ConfigDict(extra="ignore")

    message: str = Field(min_length=1, max_length=MAX_MESSAGE)
    chat_history: list[Message] | None = None
    conversation: str | None = Field(None, pattern=CASE_ID)
    previous: str | None = Field(None, pattern=CASE_ID)


@router.post("/chat", response_class=Response, responses=EVENTS)
async def ask(request: Request, question: Question, candles: Candles = False, form: Format = "own") -> Response:
    """Ask a question; the response is the stream of its turn.

    Closing the stream does not stop the turn: GET with its chat_id resumes it.
    """
    backend = backend_of(request)
    refuse_hurry(request, backend)
    message = question.message.strip()
    if not message:
        raise Refused(400, "the message is empty", "write a question")
    _refuse_foreign(backend, question)
    history = tuple(
        ChatMessage(role=earlier.role, content=earlier.content)
        for earlier in (question.chat_history or ())[-KEPT_HISTORY:]
    )
    ended = backend.places.take(
        client_of(request.scope)
    )  # before the question is appended: once it is in the log, it is worked on and paid for
    try:
        turn = await backend.questions.ask(
            message, history, conversation=question.conversation, previous=question.previous
        )
    except Unconfirmed as exc:
        ended()
        do = f"check GET /api/v1/research/chat/{exc.chat_id} before you ask again: a question asked twice is paid for twice"
        problem = {"error": str(exc), "do": do, "chat_id": exc.chat_id}
        return as_json(problem, 503, {"x-chat-id": exc.chat_id, "retry-after": "5"})
    except BaseException:
        ended()
        raise
    chunks = backend.turns.events(turn, after=None, candles=candles, compat=form == "compat")
    return Events(chunks, ending=backend.ending, ended=ended, headers={"x-chat-id": turn.chat_id})


@router.get(
    "/chat/{chat_id}", response_class=Response, responses={**EVENTS, 204: {"description": "Everything was sent."}}
)
async def resume(
    request: Request,
    chat_id: ChatId,
    last_event_id: Annotated[str | None, Header(max_length=40)] = None,
    after: Annotated[str | None, Query(max_length=40, description="Same as Last-Event-ID.")] = None,
    candles: Candles = False,
    form: Format = "own",
) -> Response:
    """Send a turn's stream from its start, or after Last-Event-ID, up to `done`. Any web process can serve it."""
    turns = backend_of(request).turns
    return await resumed(
        request,
        lambda backend: _turn_of(backend, chat_id),
        last_event_id or after,
        of="chat",
        stream=lambda turn, at: turns.events(turn, after=at, candles=candles, compat=form == "compat"),
        headers={"x-chat-id": chat_id},
    )


@router.post("/chat/{chat_id}/stop", status_code=202)
async def stop(
    request: Request,
    chat_id: ChatId,
    finish: Annotated[
        bool, Query(description="Answer from the results so far, instead of ending without an answer.")
    ] = False,
) -> Response:
    """Stop a turn on the server. Idempotent.

    With `finish`, the turn answers from the results so far. A `finish` that would change nothing is accepted and not
    recorded.
    """
    backend = backend_of(request)
    turn, again = await _turn_of(backend, chat_id), "ask the next question"
    return await end_early(backend, turn, finish=finish, writing=AgentsReported, of="turn", read=again, instead=again)


@router.get("/chats")
async def chats(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    conversation: Annotated[str | None, Query(pattern=CASE_ID, description="Only turns of this conversation.")] = None,
) -> Response:
    """Return recent turns, newest first."""
    items = [
        {
            "chat_id": turn.chat_id,
            "conversation": turn.conversation,
            "previous": turn.previous,
            "message": turn.message,
            "asked_at": turn.asked_at,
            "language": turn.language,
            "state": turn.state,
        }
        for turn in backend_of(request).turns.recent(limit, conversation=conversation)
    ]
    return as_json({"items": items})


async def _turn_of(backend: Backend, chat_id: str) -> TurnItem:
    turn = await backend.turns.find(chat_id)
    if turn is None or turn.subject is not None:
        raise Refused(404, f"there is no chat {chat_id}", "ask a question with POST /api/v1/research/chat")
    return turn


async def resumed(
    request: Request,
    find: Callable[[Backend], Awaitable[TurnItem]],
    given: str | None,
    *,
    of: str,
    stream: Callable[[TurnItem, int | None], AsyncIterator[bytes]],
    headers: dict[str, str] | None = None,
) -> Response:
    """Return the stream of a turn or an investigation after the id ``given``, or from its start.

    204 if nothing more will follow; otherwise a browser would reconnect forever. ``of``: the streamed thing, in words.

    Raises:
        Refused: 400, the id does not belong to such a stream; 404; or too many streams are open.
    """
    if given and not (given.isascii() and given.isdigit() and len(given) < 20):
        raise Refused(400, f"the Last-Event-ID does not belong to this {of}", "send the ID of the last event received")
    at, backend = int(given) if given else None, backend_of(request)
    item = await find(backend)
    if at is not None and item.last_offset is not None and at >= item.last_offset:
        return Response(None, 204)
    ended = backend.places.take(client_of(request.scope))
    return Events(stream(item, at), ending=backend.ending, ended=ended, headers=headers)


async def end_early(
    backend: Backend, item: TurnItem, *, finish: bool, writing: type[Event], of: str, read: str, instead: str
) -> Response:
    """Log once the request to stop, or to finish with the results so far. After ``writing``, its end is written.

    ``of``: the thing to end, in words. ``read`` and ``instead``: what to do if it has ended, or is stopping.

    Raises:
        Refused: 409, it has ended or is stopping.
    """
    if item.state != "running":
        raise Refused(409, f"this {of} has already ended ({item.state})", read)
    if finish and item.has_met(CancelRequested):
        raise Refused(409, f"this {of} is already stopping", f"wait for its `done`, then {instead}")
    if finish and not item.has_met(FinishRequested, writing):
        await backend.questions.finish(item.chat_id)
        item.meet(FinishRequested)
    if not finish and not item.has_met(CancelRequested):
        await backend.questions.stop(item.chat_id)
        item.meet(CancelRequested)
    name = "chat_id" if item.subject is None else "investigation_id"
    return as_json({name: item.chat_id, "finishing" if finish else "stopping": True}, 202)


def refuse_hurry(request: Request, backend: Backend) -> None:
    if waits := backend.question_rates.take(client_of(request.scope), asyncio.get_running_loop().time()):
        raise Refused(
            429,
            "too many questions from this address",
            "retry after the seconds in Retry-After",
            retry_after=str(int(waits) + 1),
        )


def _refuse_foreign(backend: Backend, question: Question) -> None:
    before = None if question.previous is None else backend.turns.known(question.previous)
    if before is not None and question.conversation not in (None, before.conversation):
        raise Refused(400, "`previous` belongs to another conversation", "send a turn of this conversation")
    if before is not None and question.conversation is None:
        question.conversation = before.conversation
