"""What a row of the table of situations holds, and the ways in which a provider can be made to answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from zoneinfo import ZoneInfo

import orjson

from schemas.errors import FailureKind
from tests.conformance.server import Situation
from tests.infra.fakes.server import Reset, Say

Cost = Literal["billed", "unknown", "nothing"]
Effect = Literal["closed", "counts", "opens"]
MODELS = ("gemini", "openai")
VECTORS = ("gemini vectors", "openai vectors")
JSON_SEARCHES = ("tavily", "bocha", "ragflow", "gdelt", "searxng")
JSON = (*MODELS, *VECTORS, *JSON_SEARCHES)
EVERYBODY = (*JSON, "arxiv")
WITH_KEY = (*MODELS, *VECTORS, "tavily", "bocha", "ragflow")
SHORT_S = 1.0
"""Timeout of the rows about time: the server would be silent for ever."""


def pacific_midnight_s() -> float:
    """Return the seconds until Google's daily quotas begin anew (https://ai.google.dev/gemini-api/docs/rate-limits)."""
    now = datetime.now(ZoneInfo("America/Los_Angeles"))
    day = (now + timedelta(days=1)).date()
    return (datetime(day.year, day.month, day.day, tzinfo=now.tzinfo).astimezone(UTC) - now).total_seconds()


UNTIL: dict[str, Callable[[], float]] = {
    "a minute from now": lambda: 60.0,
    "midnight in California": pacific_midnight_s,
}
"""Seconds from now."""


@dataclass(frozen=True)
class Must:
    """What the product must make of the answer.

    ``kind``: ``reply``, or the kind of the failure. ``again``: whether the failure is worth another try, which the runtime
    makes. ``cost``: ``billed`` is to the last digit what the provider charges; ``unknown`` keeps the whole reservation,
    and is ``nothing`` where the provider is free. ``breaker``: whether it stays ``closed``, ``counts`` the failure or
    ``opens`` at once. ``wait_s``: the provider's own wish, kept; ``until``: the same, as a name of :data:`UNTIL`.
    ``says``: what the error's text names.
    """

    kind: FailureKind | Literal["reply", "cut"] = "reply"
    again: bool = False
    cost: Cost = "billed"
    breaker: Effect = "closed"
    wait_s: float | None = None
    until: str = ""
    says: tuple[str, ...] = ()


@dataclass(frozen=True)
class Row:
    """One situation. ``answers`` and ``sent`` are for the page; ``ask`` names what is asked in ``driving.ASKED``.

    ``settings`` go to the adapter. ``refused``: how many requests the provider refuses by its documentation. ``reply``
    checks a reply.
    """

    name: str
    providers: tuple[str, ...]
    answers: str
    must: Must
    situation: Situation
    ask: str = "plain"
    settings: dict[str, Any] = field(default_factory=dict)
    requests: int = 1
    refused: int = 0
    reply: Callable[[Any], bool] | None = None


LOST = Must("network", again=True, cost="unknown", breaker="counts")
USELESS = Must("invalid_output", again=True, cost="unknown")
MALFORMED = Must("invalid_output", again=True)


def good(server: Any, request: Any) -> Say:
    """Answer well."""
    answer: Say = server.answer(request)
    return answer


def say(behaviour: Any) -> Situation:
    return lambda server, request: behaviour


def failing(status: int, said: str = "said the fake", **headers: str) -> Situation:
    """Return an error of this status in the provider's own shape."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda server, request: server.error(status, said, named)


def body_of(answer: Say) -> bytes:
    return answer.body if isinstance(answer.body, bytes) else orjson.dumps(answer.body)


def with_body(change: Callable[[bytes], bytes], **headers: str) -> Situation:
    """Answer well, with the body changed on its way."""

    def situation(server: Any, request: Any) -> Say:
        answer = good(server, request)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return Say(change(body_of(answer)), headers={**answer.headers, **named})

    return situation


def cut_short(server: Any, request: Any) -> Reset:
    body = body_of(good(server, request))
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return Reset(after=head.encode() + body[: len(body) // 2])
