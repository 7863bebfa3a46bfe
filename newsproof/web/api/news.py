"""Routes that publish news: one item, as `newsproof publish` accepts it, and the recorded sample."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from infra.listeners.source import own_file, sources_of
from infra.offline.sample_news import sample_news
from newsproof.sdk.client import NewsItem, checked_news, item_of
from newsproof.web.api.live import backend_of
from newsproof.web.responses import Refused, as_json
from streams.journal.clock import utc_now

router = APIRouter(prefix="/api/v1/news", tags=["live"])

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
