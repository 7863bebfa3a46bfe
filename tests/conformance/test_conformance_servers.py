"""The servers themselves: each refuses a wrong request in its provider's shape, charges nothing, and keeps its limits."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.conformance.driving import PROVIDERS, asked
from tests.conformance.gemini import MODELS, GeminiServer
from tests.conformance.rows import Must, Row, good
from tests.conformance.server import ConformanceServer

GEMINI, CHAT = "/v1/models/gemini-2.5-flash-lite:generateContent", "/v1/chat/completions"
SAID = {"contents": [{"role": "user", "parts": [{"text": "Who said so?"}]}]}
ASKED = {"model": "gpt-5-mini", "messages": [{"role": "user", "content": "Who said so?"}]}
WRONG: list[tuple[str, str, str, dict[str, Any], int, str]] = [
    ("gemini", "POST", GEMINI, {**SAID, "temperature": 0.2}, 400, "INVALID_ARGUMENT"),
    ("gemini", "POST", GEMINI, {}, 400, "contents is not specified"),
    (
        *("gemini", "POST", GEMINI),
        {**SAID, "generationConfig": {"thinkingConfig": {"thinkingBudget": 100}}},
        *(400, "between 512 and 24576"),
    ),
    ("openai", "POST", CHAT, {**ASKED, "thinking": True}, 400, "unknown_parameter"),
    ("openai", "POST", CHAT, {**ASKED, "max_tokens": 9}, 400, "unsupported_parameter"),
    ("tavily", "POST", "/search", {"query": "x", "depth": "basic"}, 400, "depth"),
    ("bocha", "POST", "/v1/web-search", {}, 400, "Missing parameter query"),
    ("ragflow", "POST", "/api/v1/retrieval", {"question": "x"}, 200, "dataset_ids"),
    ("arxiv", "GET", "/api/query", {"search_query": "all:x", "limit": "5"}, 400, "limit"),
    ("gdelt", "GET", "/api/v2/doc/doc", {"query": "x", "mode": "artlist", "format": "json"}, 200, "too short"),
    ("searxng", "GET", "/search", {"q": "x", "format": "json", "time_range": "hour"}, 400, "time_range"),
]


async def sent(server: ConformanceServer, method: str, path: str, fields: dict[str, Any]) -> httpx.Response:
    key = {"authorization": f"Bearer {server.key}", "x-goog-api-key": server.key}
    given: Any = {"params": fields} if method == "GET" else {"json": fields}
    async with httpx.AsyncClient(trust_env=False) as client:
        return await client.request(method, server.url + path, headers=key, **given)


@pytest.mark.parametrize(("provider", "method", "path", "fields", "status", "says"), WRONG)
async def test_a_wrong_request_is_refused_as_the_provider_does_and_is_free(
    provider: str, method: str, path: str, fields: dict[str, Any], status: int, says: str
) -> None:
    async with PROVIDERS[provider].server() as server:
        response = await sent(server, method, path, fields)
    assert (response.status_code, says in response.text) == (status, True), response.text
    assert (len(server.refusals), server.bills) == (1, [])


@pytest.mark.parametrize("model", [name for name, model in MODELS.items() if model.open])
async def test_thinking_counts_inside_the_limit_and_is_charged_as_output(model: str) -> None:
    body = {**SAID, "generationConfig": {"maxOutputTokens": 45}}
    async with GeminiServer(lambda server, request: server.reply(request, {"text": "so " * 400})) as server:
        answer = (await sent(server, "POST", GEMINI.replace("gemini-2.5-flash-lite", model), body)).json()
    usage, [candidate] = answer["usageMetadata"], answer["candidates"]
    assert candidate["finishReason"] == "MAX_TOKENS"
    assert usage["candidatesTokenCount"] + usage["thoughtsTokenCount"] == 45
    assert dict(server.bills[0].tokens)["written"] == 45


@pytest.mark.parametrize(
    ("provider", "open_models"),
    [("gemini", {"gemini-3.8-flash", "gemini-embedding-2"}), ("openai", {"gpt-5-mini", "text-embedding-3-small"})],
)
async def test_an_adapter_lists_the_models_that_are_open_to_the_key(provider: str, open_models: set[str]) -> None:
    row = Row("list", (provider,), "the list of models", Must(), good)
    async with asked(provider, row) as (host, effect, server):
        listed = await next(iter(host._ports.chain(effect))).listed_models()  # type: ignore[attr-defined]
    names = {model.name.removeprefix("models/") for model in listed}
    assert open_models <= names and "gemini-2.5-flash" not in names
    assert server.refusals == []
