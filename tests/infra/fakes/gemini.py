"""The wire shapes of ``POST /v1/models/{model}:generateContent`` (https://ai.google.dev/api/generate-content)."""

from __future__ import annotations

from typing import Any

from tests.infra.fakes.server import Say

USAGE = {
    "promptTokenCount": 1000,
    "cachedContentTokenCount": 400,
    "candidatesTokenCount": 200,
    "thoughtsTokenCount": 300,
    "toolUsePromptTokenCount": 50,
    "totalTokenCount": 1550,
}


def reply(*parts: dict[str, Any], finish: str = "STOP", **more: Any) -> Say:
    """Return a success with one candidate."""
    candidate = {"content": {"role": "model", "parts": list(parts)}, "finishReason": finish, "index": 0}
    body = {"candidates": [candidate], "usageMetadata": USAGE, "modelVersion": "gemini-2.5-pro", "responseId": "r-1"}
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
BLOCKED_PROMPT = Say(
    {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": 1000}}
)
NO_CANDIDATE = Say({"candidates": [], "usageMetadata": USAGE})
