"""The wire shapes of ``POST /v1/models/{model}:generateContent`` (https://ai.google.dev/api/generate-content)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from infra.models.call_costs import Prices
from infra.models.gemini import GeminiModel
from infra.models.gemini_client import GeminiClient
from schemas.effects import CallModel, FunctionDeclaration, Trusted, Untrusted
from tests.infra.fakes.server import Behaviour, FakeServer, Say

USAGE = {
    "promptTokenCount": 1000,
    "cachedContentTokenCount": 400,
    "candidatesTokenCount": 200,
    "thoughtsTokenCount": 300,
    "toolUsePromptTokenCount": 50,
    "totalTokenCount": 1550,
}


def reply(*parts: dict[str, Any], finish: str = "STOP", candidate: dict[str, Any] | None = None, **more: Any) -> Say:
    """Return a success with one candidate; ``candidate`` adds to it, ``more`` to the response."""
    only = {**(candidate or {}), "content": {"role": "model", "parts": list(parts)}, "finishReason": finish, "index": 0}
    body = {"candidates": [only], "usageMetadata": USAGE, "modelVersion": "gemini-2.5-pro", "responseId": "r-1"}
    return Say({**body, **more})


def text(words: str, **more: Any) -> Say:
    return reply({"text": words}, **more)


def call(name: str, args: dict[str, Any], **more: Any) -> Say:
    return reply({"functionCall": {"name": name, "args": args}}, **more)


def error(
    status: int,
    name: str,
    message: str = "said the fake",
    *details: dict[str, Any],
    headers: dict[str, str] | None = None,
) -> Say:
    """Return a google.rpc.Status as the API sends it."""
    body = {"error": {"code": status, "message": message, "status": name, "details": list(details)}}
    return Say(body, status=status, headers=headers or {})


WRONG_KEY = error(
    400,
    "INVALID_ARGUMENT",
    "API key not valid. Please pass a valid API key.",
    {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID", "domain": "googleapis.com"},
)
"""What Google really answers to a wrong key: 400, not 401."""
RETRY_INFO = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}
BLOCKED_KEY = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_SERVICE_BLOCKED"}
CLOSED = (
    "This model models/gemini-2.5-pro is no longer available to new users. Please update your code to use a newer model "
    "for the latest features and improvements."
)
"""What Google says of a deprecated model (github.com/sohzm/cheating-daddy/issues/476)."""


def quota(quota_id: str, value: str = "20") -> dict[str, Any]:
    """Return the detail of a 429 (github.com/ogkalu2/comic-translate/issues/403)."""
    violated = {
        "quotaMetric": "generativelanguage.googleapis.com/generate_content_free_tier_requests",
        "quotaId": quota_id,
        "quotaDimensions": {"model": "gemini-2.5-pro", "location": "global"},
        "quotaValue": value,
    }
    return {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [violated]}


BLOCKED_PROMPT = Say(
    {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": 1000}}
)
NO_CANDIDATE = Say({"candidates": [], "usageMetadata": USAGE})

PLAN = FunctionDeclaration(
    name="decide_next_tools",
    description="Choose tools.",
    parameters={
        "type": "object",
        "properties": {"tools": {"type": "array", "items": {"type": "string"}}, "reason": {"type": "string"}},
        "required": ["tools", "reason"],
        "additionalProperties": False,
    },
)
SCHEMA = {"type": "object", "properties": {"confidence": {"type": "number"}}, "required": ["confidence"]}
ASK = CallModel(
    task="triage",
    tier="heavy",
    prompt_name="triage",
    prompt_version="1",
    prompt_hash="0" * 32,
    system="You judge crypto news.",
    parts=(Trusted("Judge this:"), Untrusted(label="history", text="SEC 批准比特币现货 ETF")),
    temperature=0.2,
    max_output_tokens=500,
)
FORCED = msgspec.structs.replace(ASK, functions=(PLAN,), forced_function=PLAN.name)
STRUCTURED = msgspec.structs.replace(ASK, response_schema=SCHEMA)


@asynccontextmanager
async def gemini(*script: Behaviour, **settings: Any) -> AsyncIterator[tuple[GeminiModel, FakeServer]]:
    async with FakeServer(*script) as server:
        given: dict[str, Any] = {"api_key": "AIza-secret", "timeout_s": 5.0, **settings}
        named = given.pop("model", "gemini-2.5-pro")
        model = GeminiModel(GeminiClient(base_url=server.url, **given), model=named, prices=Prices())
        try:
            yield model, server
        finally:
            await model.close()
