"""The servers themselves: what their providers refuse they refuse, in the provider's shape, and charge nothing for it."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.conformance.driving import asked
from tests.conformance.gemini import MODELS, GeminiServer
from tests.conformance.keyed_searches import BochaServer, RagflowServer, TavilyServer
from tests.conformance.open_searches import ArxivServer, GdeltServer, SearxngServer
from tests.conformance.openai import OpenAIServer
from tests.conformance.rows import Must, Row, good
from tests.conformance.server import ConformanceServer

GENERATE = "/v1/models/{}:generateContent"
GEMINI_KEY = {"x-goog-api-key": GeminiServer.key}
GEMINI_BODY: dict[str, Any] = {"contents": [{"role": "user", "parts": [{"text": "Who said so?"}]}]}
CHAT = {"model": "gpt-4.1-mini", "messages": [{"role": "user", "content": "Who said so?"}]}
MINI = {**CHAT, "model": "gpt-5-mini"}
OPEN_OBJECT = {"type": "object", "properties": {"a": {"type": "string"}}}
HALF_REQUIRED = {**OPEN_OBJECT, "additionalProperties": False, "required": []}


def thinking(**config: Any) -> dict[str, Any]:
    return {**GEMINI_BODY, "generationConfig": {"thinkingConfig": config}}


def strict(schema: dict[str, Any]) -> dict[str, Any]:
    named = {"type": "json_schema", "json_schema": {"name": "a", "strict": True, "schema": schema}}
    return {**CHAT, "response_format": named}


async def sent(server: ConformanceServer, method: str, path: str, **content: Any) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False) as client:
        return await client.request(method, server.url + path, **content)


GEMINI_REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("gemini-2.5-flash-lite", {**GEMINI_BODY, "temperature": 0.2}, 'Unknown name "temperature": Cannot find field'),
    ("gemini-2.5-flash-lite", {**GEMINI_BODY, "generationConfig": {"heat": 1}}, "at 'generationConfig'"),
    ("gemini-2.5-flash-lite", {}, "contents is not specified"),
    ("gemini-2.5-flash-lite", {"contents": [{"role": "judge", "parts": [{"text": "x"}]}]}, "contents.0.role"),
    ("gemini-2.5-flash-lite", {**GEMINI_BODY, "generationConfig": {"temperature": "hot"}}, "temperature"),
    ("gemini-2.5-flash-lite", {**GEMINI_BODY, "generationConfig": {"maxOutputTokens": 0}}, "maxOutputTokens"),
    ("gemini-2.5-flash-lite", {**GEMINI_BODY, "generationConfig": {"responseJsonSchema": {}}}, "response_mime_type"),
    ("gemini-2.5-flash-lite", thinking(thinkingLevel="LOW"), "Thinking level is not supported"),
    ("gemini-2.5-flash-lite", thinking(thinkingBudget=100), "between 512 and 24576"),
    ("gemini-2.5-pro", thinking(thinkingBudget=0), "only works in thinking mode"),
    ("gemini-2.5-pro", thinking(thinkingBudget=52_428), "thinking budget (52428) is invalid"),
    ("gemini-3.8-flash", thinking(thinkingLevel="MINIMAL"), "Thinking level MINIMAL is not supported"),
    (
        "gemini-3.8-flash",
        thinking(thinkingLevel="LOW", thinkingBudget=0),
        "only one of thinking budget and thinking level",
    ),
    ("gemini-3.8-flash", {**GEMINI_BODY, "generationConfig": {"candidateCount": 2}}, "Multiple candidates"),
    ("gemini-2.5-flash", GEMINI_BODY, "no longer available to new users"),
    (
        "gemini-2.5-flash-lite",
        {**GEMINI_BODY, "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["x"]}}},
        "not declared",
    ),
]


@pytest.mark.parametrize(("model", "body", "says"), GEMINI_REFUSED, ids=[says for _, _, says in GEMINI_REFUSED])
async def test_gemini_refuses_what_its_documentation_refuses(model: str, body: dict[str, Any], says: str) -> None:
    async with GeminiServer() as server:
        response = await sent(server, "POST", GENERATE.format(model), json=body, headers=GEMINI_KEY)
    error = response.json()["error"]
    status = {400: "INVALID_ARGUMENT", 404: "NOT_FOUND"}[response.status_code]
    assert (error["code"], error["status"]) == (response.status_code, status)
    assert says in error["message"]
    assert (len(server.refusals), server.billed_usd) == (1, 0)


async def test_gemini_takes_both_spellings_of_a_field_as_googles_parsers_do() -> None:
    body = {**GEMINI_BODY, "generation_config": {"max_output_tokens": 100, "thinkingConfig": {"thinking_budget": 0}}}
    async with GeminiServer() as server:
        response = await sent(server, "POST", GENERATE.format("gemini-2.5-flash-lite"), json=body, headers=GEMINI_KEY)
    assert (response.status_code, server.refusals) == (200, [])


@pytest.mark.parametrize(
    ("headers", "status", "says"),
    [({}, 403, "unregistered callers"), ({"x-goog-api-key": "another"}, 400, "API key not valid")],
)
async def test_gemini_refuses_a_missing_key_otherwise_than_a_wrong_one(
    headers: dict[str, str], status: int, says: str
) -> None:
    async with GeminiServer() as server:
        response = await sent(server, "POST", GENERATE.format("gemini-2.5-pro"), json=GEMINI_BODY, headers=headers)
    assert response.status_code == status
    assert says in response.json()["error"]["message"]


@pytest.mark.parametrize("model", [name for name, model in MODELS.items() if model.open])
async def test_thinking_counts_inside_the_limit_and_is_charged_as_output(model: str) -> None:
    body = {**GEMINI_BODY, "generationConfig": {"maxOutputTokens": 45}}
    async with GeminiServer(lambda server, request: server.reply(request, {"text": "so " * 400})) as server:
        answer = (await sent(server, "POST", GENERATE.format(model), json=body, headers=GEMINI_KEY)).json()
    usage, [candidate] = answer["usageMetadata"], answer["candidates"]
    assert candidate["finishReason"] == "MAX_TOKENS"
    assert usage["candidatesTokenCount"] + usage["thoughtsTokenCount"] == 45
    assert dict(server.bills[0].tokens)["written"] == 45
    assert ("parts" in candidate["content"]) == (usage["candidatesTokenCount"] > 0)


async def test_the_list_of_models_comes_in_pages_and_leaves_out_what_is_closed() -> None:
    names, token = [], ""
    async with GeminiServer() as server:
        while True:
            page = (
                await sent(
                    server,
                    "GET",
                    f"/v1beta/models?pageSize=1000&pageToken={token}" if token else "/v1beta/models",
                    headers=GEMINI_KEY,
                )
            ).json()
            names += [model["name"] for model in page["models"]]
            if not (token := page.get("nextPageToken", "")):
                break
    assert len(server.requests) == 2
    assert "models/gemini-3.8-flash" in names and "models/gemini-2.5-flash" not in names


OPENAI_REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({**CHAT, "thinking": True}, "unknown_parameter", "thinking"),
    ({"model": "gpt-4.1-mini"}, "missing_required_parameter", "messages"),
    ({**CHAT, "stream": "no"}, "invalid_type", "stream"),
    ({**CHAT, "reasoning_effort": "huge"}, "invalid_value", "reasoning_effort"),
    ({**CHAT, "model": "gpt-9"}, "model_not_found", ""),
    ({**MINI, "max_tokens": 100}, "unsupported_parameter", "max_tokens"),
    ({**MINI, "temperature": 0.2}, "unsupported_value", "temperature"),
    (strict(OPEN_OBJECT), "invalid_json_schema", "response_format"),
    (strict(HALF_REQUIRED), "invalid_json_schema", "response_format"),
    ({**CHAT, "max_tokens": 5, "max_completion_tokens": 5}, "invalid_parameter_combination", ""),
]


@pytest.mark.parametrize(("body", "code", "param"), OPENAI_REFUSED, ids=[f"{c} {p}" for _, c, p in OPENAI_REFUSED])
async def test_openai_refuses_what_its_documentation_refuses(body: dict[str, Any], code: str, param: str) -> None:
    async with OpenAIServer() as server:
        headers = {"authorization": f"Bearer {OpenAIServer.key}"}
        response = await sent(server, "POST", "/v1/chat/completions", json=body, headers=headers)
    error = response.json()["error"]
    assert response.status_code == (404 if code == "model_not_found" else 400)
    assert (error["code"], error["param"] or "", error["type"]) == (code, param, "invalid_request_error")
    assert server.billed_usd == 0


SEARCHES: list[tuple[type[ConformanceServer], str, dict[str, Any], int, str]] = [
    (TavilyServer, "/search", {"query": "x", "depth": "basic"}, 400, "depth"),
    (TavilyServer, "/search", {"query": "x", "topic": "sport"}, 400, "topic"),
    (TavilyServer, "/search", {"query": "x" * 401}, 400, "400 characters"),
    (TavilyServer, "/search", {"query": "x", "chunks_per_source": 2}, 400, "advanced"),
    (TavilyServer, "/search", {"query": "x", "start_date": "2026-11-02", "end_date": "2026-11-01"}, 400, "before"),
    (BochaServer, "/v1/web-search", {}, 400, "Missing parameter query"),
    (BochaServer, "/v1/web-search", {"query": "x", "count": 51}, 400, "count"),
    (BochaServer, "/v1/web-search", {"query": "x", "include": "|".join(["a.com"] * 21)}, 400, "20"),
    (RagflowServer, "/api/v1/retrieval", {"question": "x"}, 200, "dataset_ids"),
    (RagflowServer, "/api/v1/retrieval", {"question": "x", "dataset_ids": ["y"]}, 200, "don't own"),
]


@pytest.mark.parametrize(
    ("server", "path", "body", "status", "says"), SEARCHES, ids=[f"{s[0].__name__} {s[4]}" for s in SEARCHES]
)
async def test_a_search_with_a_key_refuses_what_its_documentation_refuses(
    server: type[ConformanceServer], path: str, body: dict[str, Any], status: int, says: str
) -> None:
    async with server() as one:
        headers = {"authorization": f"Bearer {one.key}"}
        response = await sent(one, "POST", path, json=body, headers=headers)
        without = await sent(one, "POST", path, json=body)
    assert (response.status_code, says in response.text) == (status, True), response.text
    assert (len(one.refusals), one.bills) == (2, [])
    assert without.status_code == 401 or "Authorization" in without.text


QUERIES: list[tuple[type[ConformanceServer], str, dict[str, str], int, str]] = [
    (ArxivServer, "/api/query", {"search_query": "all:x", "limit": "5"}, 400, "limit"),
    (ArxivServer, "/api/query", {"search_query": "all:x", "sortBy": "date"}, 400, "sortBy"),
    (ArxivServer, "/api/query", {"start": "0"}, 400, "search_query"),
    (GdeltServer, "/api/v2/doc/doc", {"query": "x", "mode": "artlist", "format": "json"}, 200, "too short or too long"),
    (
        GdeltServer,
        "/api/v2/doc/doc",
        {"query": "usdc OR tether", "mode": "artlist", "format": "json"},
        200,
        "surrounded by ()",
    ),
    (GdeltServer, "/api/v2/doc/doc", {"query": "(usdc)", "mode": "artlist", "format": "json"}, 200, "Parentheses"),
    (
        GdeltServer,
        "/api/v2/doc/doc",
        {"query": "usdc", "mode": "artlist", "format": "json", "maxrecords": "251"},
        200,
        "maxrecords",
    ),
    (
        GdeltServer,
        "/api/v2/doc/doc",
        {"query": "usdc", "mode": "artlist", "format": "json", "startdatetime": "20260101000000"},
        200,
        "last 3 months",
    ),
    (SearxngServer, "/search", {"q": "x", "format": "json", "time_range": "hour"}, 400, "time_range"),
    (SearxngServer, "/search", {"q": "x", "format": "json", "max_results": "5"}, 400, "max_results"),
]


@pytest.mark.parametrize(
    ("server", "path", "query", "status", "says"), QUERIES, ids=[f"{q[0].__name__} {q[4]}" for q in QUERIES]
)
async def test_a_search_without_a_key_refuses_what_its_documentation_refuses(
    server: type[ConformanceServer], path: str, query: dict[str, str], status: int, says: str
) -> None:
    async with server() as one:
        response = await sent(one, "GET", path, params=query)
    assert (response.status_code, says in response.text) == (status, True), response.text
    assert (len(one.refusals), one.bills) == (1, [])


async def test_searxng_without_json_answers_403_with_a_page() -> None:
    async with SearxngServer(json_enabled=False) as server:
        response = await sent(server, "GET", "/search", params={"q": "x", "format": "json"})
    assert (response.status_code, response.headers["content-type"][:9]) == (403, "text/html")


LISTING = [
    pytest.param("gemini", ("gemini-3.8-flash", "gemini-embedding-2")),
    pytest.param("openai", ("gpt-5-mini", "text-embedding-3-small")),
]


@pytest.mark.parametrize(("provider", "open_models"), LISTING)
async def test_an_adapter_lists_the_models_that_are_open_to_the_key(
    provider: str, open_models: tuple[str, ...]
) -> None:
    row = Row("list", (provider,), "the list of models", Must(), good)
    async with asked(provider, row) as (host, effect, server):
        listed = await next(iter(host._ports.chain(effect))).listed_models()  # type: ignore[attr-defined]
    names = {getattr(model, "name", model).removeprefix("models/") for model in listed}
    assert set(open_models) <= names
    assert server.refusals == []
