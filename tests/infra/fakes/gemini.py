"""The wire shapes of ``POST /v1/models/{model}:generateContent`` (https://ai.google.dev/api/generate-content).

Errors: https://ai.google.dev/gemini-api/docs/troubleshooting. The server that checks requests is tests/conformance/gemini.py.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec

from infra.models.call_costs import Prices
from infra.models.gemini import GeminiModel
from infra.models.gemini_client import GeminiClient
from schemas.effects import CallModel, FunctionDeclaration, Trusted, Untrusted
from tests.infra.fakes.server import Behaviour, FakeServer, Say, against

USAGE = {
    "promptTokenCount": 1000,
    "cachedContentTokenCount": 400,
    "candidatesTokenCount": 200,
    "thoughtsTokenCount": 300,
    "toolUsePromptTokenCount": 50,
    "totalTokenCount": 1550,
}


def reply(*parts: dict[str, Any], finish: str = "STOP", candidate: dict[str, Any] | None = None, **more: Any) -> Say:
    """Return a success with one candidate; ``candidate`` adds to it.

    ``more`` replaces fields of the response; None leaves one out.
    """
    content = {"role": "model", **({"parts": list(parts)} if parts else {})}
    only = {**(candidate or {}), "content": content, "finishReason": finish, "index": 0}
    body = {"candidates": [only], "usageMetadata": USAGE, "modelVersion": "gemini-2.5-pro", "responseId": "r-1", **more}
    return Say({name: value for name, value in body.items() if value is not None})


NO_CANDIDATE = Say({"candidates": [], "usageMetadata": USAGE})


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
    body: dict[str, Any] = {"code": status, "message": message, "status": name}
    if details:
        body["details"] = list(details)
    return Say({"error": body}, status=status, headers=headers or {})


def detail(kind: str, **fields: Any) -> dict[str, Any]:
    """Return one detail of an error."""
    return {"@type": f"type.googleapis.com/google.rpc.{kind}", **fields}


def invalid(message: str, *details: dict[str, Any]) -> Say:
    return error(400, "INVALID_ARGUMENT", message, *details)


WRONG_KEY = invalid(
    "API key not valid. Please pass a valid API key.",
    detail("ErrorInfo", reason="API_KEY_INVALID", domain="googleapis.com"),
)
"""Google's real response to a wrong key: 400, not 401."""
BLOCKED_KEY = detail("ErrorInfo", reason="API_KEY_SERVICE_BLOCKED")


def closed(model: str = "gemini-2.5-pro") -> str:
    """Return Google's message for a deprecated model (github.com/thedotmack/claude-mem/issues/3278)."""
    return (
        f"This model models/{model} is no longer available to new users. "
        "Please update your code to use a newer model for the latest features and improvements."
    )


def quota(quota_id: str, *, retry_s: float | None = None) -> Say:
    """Return a 429 of one quota, such as ``GenerateRequestsPerDayPerProjectPerModel-FreeTier``.

    Its shape: https://github.com/google-gemini/gemini-cli/issues/8437.
    """
    violation = {
        "quotaMetric": "generativelanguage.googleapis.com/generate_content_free_tier_requests",
        "quotaId": quota_id,
        "quotaDimensions": {"location": "global", "model": "gemini-2.5-pro"},
        "quotaValue": "20",
    }
    details = [detail("QuotaFailure", violations=[violation])]
    if retry_s is not None:
        details.append(detail("RetryInfo", retryDelay=f"{retry_s:g}s"))
    said = "You exceeded your current quota, please check your plan and billing details."
    return error(429, "RESOURCE_EXHAUSTED", said, *details)


def blocked(reason: str, usage: dict[str, int], **more: Any) -> Say:
    """Return the response to a prompt that was blocked: it has no candidate."""
    return Say({"promptFeedback": {"blockReason": reason}, "usageMetadata": usage, **more})


NO_CANDIDATE = reply(candidates=[])

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


def adapter(url: str, *, model: str = "gemini-2.5-pro", **settings: Any) -> GeminiModel:
    """Return the adapter of a server at this address."""
    client = GeminiClient(base_url=url, **{"api_key": "AIza-secret", **settings})
    return GeminiModel(client, model=model, prices=Prices())


def gemini(*script: Behaviour, **settings: Any) -> AbstractAsyncContextManager[tuple[GeminiModel, FakeServer]]:
    return against(adapter, *script, **{"timeout_s": 5.0, **settings})
