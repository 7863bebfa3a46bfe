"""Routes that take news (one item, as `newsproof publish` accepts it, or the recorded sample), and a claim to verify."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Body, Request
from pydantic import Field
from starlette.responses import Response

from infra.listeners.source import own_file, sources_of
from infra.offline.sample_news import sample_news
from newsproof.sdk.client import NewsItem, checked_news, item_of
from newsproof.sdk.verification import DEADLINE_S, MAX_CLAIM
from newsproof.web.api.live import backend_of
from newsproof.web.api.research import refuse_hurry
from newsproof.web.responses import Refused, StrictBody, as_json
from streams.journal.clock import utc_now

router = APIRouter(prefix="/api/v1/news", tags=["live"])
verification = APIRouter(tags=["verification"])

MAX_DEADLINE_S = 120.0
_ITEM = {"type": "object", "required": ["text"], "example": {"text": "Binance lists ZK", "source": "me"}}
# Not a parameter, because FastAPI would refuse invalid JSON with its own message.
_BODY = {"requestBody": {"required": True, "content": {"application/json": {"schema": _ITEM}}}}


@router.post("", status_code=202, openapi_extra=_BODY)
async def publish(request: Request) -> Response:
    """Publish one news item: `text`, `source` (default: page), `published_at` (default: now) and the other fields of
    `newsproof publish --help`.

    202 once it is in the log. `case_id` is the case that it opens, or has opened if it was published before.
    """
    backend = backend_of(request)
    listed = sources_of(own_file(backend.settings))
    checked = item_of(await request.body(), source="page", now=utc_now(), listed=listed)
    await backend.questions.publish([checked])
    return as_json({"case_id": checked.case_id, "dated_now": checked.dated_now}, 202)


@router.post("/sample", status_code=202)
async def publish_sample(request: Request) -> Response:
    """Publish the recorded sample of real news items. Refused in live mode, where judging it costs money."""
    backend = backend_of(request)
    if backend.settings.mode == "live":
        raise Refused(
            409,
            "the sample is for testing only, because judging it in live mode costs money",
            "run `newsproof demo`, which is free",
        )
    sample = (checked_news(news, now=utc_now()) for news in sample_news())
    items = [NewsItem(news.key, value, case_id=news.case_id) for news, value in sample]
    await backend.questions.publish(items)
    return as_json({"published": len(items)}, 202)


class Claim(StrictBody):
    """A claim to check. `deadline_s`: time limit for the answer, in seconds. `max_cost_usd`: a case that costs more is cancelled."""

    claim: Annotated[str, Field(min_length=1, max_length=MAX_CLAIM, examples=["SEC approves spot ETH ETFs"])]
    deadline_s: Annotated[float, Field(gt=0, le=MAX_DEADLINE_S)] = DEADLINE_S
    max_cost_usd: Annotated[float | None, Field(ge=0)] = None
    language: Literal["zh", "en"] | None = None


@verification.post("/api/verify")
@verification.post("/api/v1/verify", include_in_schema=False)
async def verify(request: Request, claim: Annotated[Claim, Body()]) -> Response:
    """Check a claim. `verdict` and `confidence` mean the same as in a signal. `quotes` are untrusted text.

    The claim becomes a case but never a signal: bots do not see it, and it does not count as a report. At the deadline the
    answer has the state of the case (`reached`). Send the same claim again for the final answer; within an hour it comes
    from the log, at no cost (`from_log`).
    """
    backend = backend_of(request)
    refuse_hurry(request, backend)
    answer = await backend.verifier.verify(
        claim.claim,
        client="api",
        deadline_s=claim.deadline_s,
        max_cost_usd=claim.max_cost_usd,
        language=claim.language,
    )
    return as_json(answer)
