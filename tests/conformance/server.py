"""A server that is written to a provider's documentation: it refuses what the provider refuses, answers, and keeps books."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import orjson

from tests.conformance.documented import Document, Fault
from tests.infra.fakes.server import Behaviour, FakeServer, Received, Say


@dataclass(frozen=True)
class Refusal:
    """A request that the provider does not take: why, and its answer in the provider's own words."""

    why: str
    answer: Say


@dataclass(frozen=True)
class Bill:
    """What the provider counts one answer as. ``request`` is the body that it answered."""

    usd: Decimal
    request: bytes
    tokens: tuple[tuple[str, int], ...] = ()


class ConformanceServer(FakeServer, ABC):
    """Checks each request, then does what ``situation`` says; without one it answers well.

    ``refusals`` says why requests were refused; ``bills`` holds what was charged, an entry per answer that was made.
    ``key`` is the only one that is let in. A refused request is not charged. ``broken`` holds what went wrong in the server.
    """

    key = "secret-key"

    def __init__(self, situation: Situation | None = None) -> None:
        super().__init__(Say())
        self._situation = situation or (lambda server, request: server.answer(request))
        self.refusals: list[str] = []
        self.bills: list[Bill] = []
        self.broken: list[Exception] = []

    @property
    def billed_usd(self) -> Decimal:
        return sum((bill.usd for bill in self.bills), Decimal(0))

    def _chosen(self, request: Received) -> Behaviour:
        try:
            refusal = self.refusal(request)
            if refusal is not None:
                self.refusals.append(refusal.why)
                return refusal.answer
            return self._situation(self, request)
        except Exception as exc:
            self.broken.append(exc)
            raise

    @abstractmethod
    def refusal(self, request: Received) -> Refusal | None:
        """Return why the provider would not take this request; None when it does."""

    @abstractmethod
    def answer(self, request: Received) -> Say:
        """Return the good answer to this request, and charge it."""

    @abstractmethod
    def error(self, status: int, said: str = "said the fake", headers: dict[str, str] | None = None) -> Say:
        """Return an error with this status in the provider's own shape."""

    def charge(self, usd: Decimal, request: Received, **tokens: int) -> None:
        self.bills.append(Bill(usd, request.body, tuple(tokens.items())))

    async def __aenter__(self) -> Self:
        return await super().__aenter__()


Situation = Callable[[Any, Received], Behaviour]
"""(server, request) → what the server does."""


def path_of(request: Received) -> str:
    return urlsplit(request.path).path


def query_of(request: Received) -> dict[str, list[str]]:
    return parse_qs(urlsplit(request.path).query, keep_blank_values=True)


def bearer_of(request: Received) -> str | None:
    """Return the bearer token; None where there is none."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token if scheme.lower() == "bearer" and token else None


def posted_json(request: Received) -> tuple[Any, str | None]:
    """Return the body, and why it cannot be read (None when it can)."""
    if request.headers.get("content-type", "").split(";")[0].strip() != "application/json":
        return None, "the header content-type is not application/json"
    try:
        return orjson.loads(request.body), None
    except orjson.JSONDecodeError as exc:
        return None, f"the body is not JSON: {exc}"


def body_fault(request: Received, document: Document) -> tuple[Any, Fault | None]:
    """Return the body of a POST and its first fault."""
    body, unreadable = posted_json(request)
    if unreadable is not None:
        return None, Fault("", "type", unreadable)
    return body, document.fault(body)


def example_of(schema: dict[str, Any]) -> Any:
    """Return the smallest value that a JSON Schema of ours takes."""
    if "enum" in schema:
        return schema["enum"][0]
    if "anyOf" in schema:
        return example_of(schema["anyOf"][0])
    kind = schema.get("type", "object")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        wanted = schema.get("required", [])
        return {name: example_of(schema["properties"][name]) for name in wanted}
    if kind == "array":
        return [example_of(schema["items"])] * schema.get("minItems", 0)
    plain: dict[str, Any] = {"string": "said", "number": 0.5, "integer": 1, "boolean": True, "null": None}
    return schema.get("minimum", plain[kind])
