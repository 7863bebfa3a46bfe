"""Routes of watches: recurring investigations."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from newsproof.app.watches import watch_of
from newsproof.web.api.live import CASE_ID, backend_of
from newsproof.web.responses import Refused, as_json
from schemas.watches import MAX_SUBJECT

router = APIRouter(prefix="/api/v1/watches", tags=["watches"])


class WatchAsked(BaseModel):
    """A watch: `every`, such as 6h (30m to 30d), or `on_news`."""

    subject: str = Field(min_length=1, max_length=MAX_SUBJECT)
    every: str | None = Field(None, max_length=20)
    on_news: bool = False


@router.get("")
async def watches(request: Request) -> Response:
    """Return every watch, newest first, ended ones last."""
    return as_json({"items": await backend_of(request).watches.views()})


@router.post("", status_code=201)
async def set_watch(request: Request, asked: WatchAsked) -> Response:
    """Start a watch. It runs at once, then at its interval or on news about the subject."""
    watch = watch_of(asked.subject, asked.every, on_news=asked.on_news, by="web")
    return as_json(await backend_of(request).watches.set(watch), 201)


@router.post("/{watch_id}/{command}")
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
