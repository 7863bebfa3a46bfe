"""The wire shapes of ``POST /v1/chat/completions`` (https://platform.openai.com/docs/api-reference/chat).

The server that checks requests is tests/conformance/openai.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from infra.models.call_costs import Prices
from infra.models.openai_client import OpenAICompatibleClient
from infra.models.openai_compatible import SERVICE, OpenAICompatibleModel
from tests.infra.fakes.server import Behaviour, FakeServer, Say, against

USAGE = {
    "prompt_tokens": 1000,
    "completion_tokens": 500,
    "total_tokens": 1500,
    "prompt_tokens_details": {"cached_tokens": 400, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 300, "accepted_prediction_tokens": 0},
}


def completion(message: dict[str, Any], *, finish: str | None = "stop", **more: Any) -> Say:
    """Return a success with one choice; ``more`` replaces fields of the response, None leaves one out."""
    full = {"role": "assistant", "content": None, "refusal": None, "annotations": [], **message}
    choice = {"index": 0, "message": full, "logprobs": None, "finish_reason": finish}
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_760_000_000,
        "model": "gpt-5-mini-2025-08-07",
        "choices": [choice],
        "usage": USAGE,
        "service_tier": "default",
        **more,
    }
    return Say({name: value for name, value in body.items() if value is not None})


def text(words: str, **more: Any) -> Say:
    return completion({"content": words}, **more)


def calling(name: str, arguments: str) -> dict[str, Any]:
    """Return a message that calls a function; arguments are a string of JSON on this wire."""
    made = {"id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments}}
    return {"tool_calls": [made]}


def call(name: str, arguments: str, **more: Any) -> Say:
    return completion(calling(name, arguments), **{"finish": "tool_calls", **more})


def error(status: int, message: str = "said the fake", *, headers: dict[str, str] | None = None, **more: Any) -> Say:
    """Return an error as the API sends it; ``more`` are its ``type``, ``param`` and ``code``."""
    body = {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None, **more}}
    return Say(body, status=status, headers=headers or {})


def listed(models: Mapping[str, Mapping[str, Any]]) -> Say:
    """Return the list of ``GET /models``: name → what the server adds to the row."""
    return Say({"object": "list", "data": [{"id": name, "object": "model", **more} for name, more in models.items()]})


def adapter(url: str, *, model: str = "gpt-5-mini", **settings: Any) -> OpenAICompatibleModel:
    """Return the adapter of a server at this address."""
    given = {"api_key": "sk-secret", "prices": Prices(provider="openai"), **settings}
    return OpenAICompatibleModel(OpenAICompatibleClient(SERVICE, base_url=f"{url}/v1", **given), model=model)


def openai(
    *script: Behaviour, **settings: Any
) -> AbstractAsyncContextManager[tuple[OpenAICompatibleModel, FakeServer]]:
    return against(adapter, *script, **{"timeout_s": 5.0, **settings})
