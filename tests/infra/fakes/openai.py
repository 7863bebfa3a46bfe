"""The wire shapes of ``POST /v1/chat/completions`` (https://platform.openai.com/docs/api-reference/chat)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from infra.models.call_costs import Prices
from infra.models.openai_client import OpenAICompatibleClient
from infra.models.openai_compatible import SERVICE, OpenAICompatibleModel
from tests.infra.fakes.server import Behaviour, FakeServer, Say

USAGE = {
    "prompt_tokens": 1000,
    "completion_tokens": 500,
    "total_tokens": 1500,
    "prompt_tokens_details": {"cached_tokens": 400, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 300, "accepted_prediction_tokens": 0},
}


def completion(message: dict[str, Any], *, finish: str | None = "stop", **more: Any) -> Say:
    """Return a success with one choice; ``more`` replaces fields of the response."""
    choice = {"index": 0, "message": {"role": "assistant", "content": None, **message}, "finish_reason": finish}
    body = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1760000000, "model": "gpt-5-mini-2025-08-07"}
    return Say({**body, "choices": [{**choice, "logprobs": None}], "usage": USAGE, **more})


def text(words: str, **more: Any) -> Say:
    return completion({"content": words}, **more)


def call(name: str, arguments: str, **more: Any) -> Say:
    """Arguments are a string of JSON on this wire."""
    made = {"id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments}}
    return completion({"tool_calls": [made]}, **{"finish": "tool_calls", **more})


def error(status: int, message: str = "said the fake", *, headers: dict[str, str] | None = None, **more: Any) -> Say:
    """Return an error as the API sends it; ``more`` are its ``type``, ``param`` and ``code``."""
    body = {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None, **more}}
    return Say(body, status=status, headers=headers or {})


def listed(models: Mapping[str, Mapping[str, Any]]) -> Say:
    """Return the list of ``GET /models``: name → what the server adds to the row."""
    return Say({"object": "list", "data": [{"id": name, "object": "model", **more} for name, more in models.items()]})


@asynccontextmanager
async def openai(*script: Behaviour, **settings: Any) -> AsyncIterator[tuple[OpenAICompatibleModel, FakeServer]]:
    async with FakeServer(*script) as server:
        given: dict[str, Any] = {
            "api_key": "sk-secret",
            "timeout_s": 5.0,
            "prices": Prices(provider="openai"),
            **settings,
        }
        named = given.pop("model", "gpt-5-mini")
        model = OpenAICompatibleModel(
            OpenAICompatibleClient(SERVICE, base_url=f"{server.url}/v1", **given), model=named
        )
        try:
            yield model, server
        finally:
            await model.close()
