"""Ollama, llama-server and other servers of one's own: what they list, how they are asked, and what their failures say."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from infra.http import UselessAnswerError
from infra.models import live_models
from infra.models.listing import ListedModel
from infra.models.openai_compatible import OpenAICompatibleModel
from infra.settings import Settings
from schemas.effects import ModelReply
from schemas.errors import NewsproofError, PermanentError, TransientError
from tests.infra.fakes import openai as fake
from tests.infra.fakes.gemini import ASK, FORCED, PLAN
from tests.infra.fakes.market import Routed
from tests.infra.fakes.openai import listed
from tests.infra.fakes.server import FakeServer, Say

PLAN_TEXT = '{"tools": [], "reason": "r"}'


def model_at(url: str, provider: str, model: str = "qwen3:8b") -> OpenAICompatibleModel:
    """The adapter that the settings make of this address."""
    addresses = {"openai_gateways": f"own={url}"} if provider == "own" else {f"{provider}_base_url": url}
    settings = Settings(
        _env_file=None, model_light=f"{provider}:{model}", model_heavy=f"{provider}:{model}", **addresses
    )  # type: ignore[arg-type, call-arg]
    port: Any = live_models(settings)[0]["light"]
    assert isinstance(port, OpenAICompatibleModel)
    return port


@asynccontextmanager
async def serving(
    server: FakeServer, provider: str, model: str = "qwen3:8b"
) -> AsyncIterator[tuple[OpenAICompatibleModel, FakeServer]]:
    async with server:
        port = model_at(f"{server.url}/v1", provider, model)
        try:
            yield port, server
        finally:
            await port.close()


async def test_ollama_which_ignores_tool_choice_is_asked_for_a_plan_by_schema_without_a_key() -> None:
    async with serving(FakeServer(fake.text(PLAN_TEXT, model="qwen3:8b")), "ollama") as (model, server):
        answer = await model.perform(FORCED)
    [asked] = server.requests
    assert "authorization" not in asked.headers and "tools" not in asked.json
    assert asked.json["response_format"]["json_schema"]["schema"]["required"] == ["tools", "reason"]
    assert asked.json["reasoning_effort"] == "none"
    assert isinstance(answer.reply, ModelReply)
    assert [(c.name, c.args["reason"]) for c in answer.reply.function_calls] == [(PLAN.name, "r")]
    assert (model.provider, answer.cost_usd, answer.cost_source) == ("ollama", 0, "local, free")


@pytest.mark.parametrize("provider", ["llamacpp", "own"])
async def test_other_local_servers_are_asked_for_the_one_tool_by_the_word_that_they_all_take(provider: str) -> None:
    async with serving(FakeServer(fake.call(PLAN.name, PLAN_TEXT)), provider) as (model, server):
        answer = await model.perform(replace(FORCED, thinking="low"))
    [asked] = server.requests
    assert (asked.json["tool_choice"], len(asked.json["tools"])) == ("required", 1)
    assert asked.json["reasoning_effort"] == "low"
    assert isinstance(answer.reply, ModelReply) and answer.reply.function_calls


async def test_a_local_answer_that_says_no_usage_costs_nothing_all_the_same() -> None:
    async with serving(FakeServer(fake.text("yes", usage=None)), "llamacpp") as (model, _):
        assert (await model.perform(ASK)).cost_usd == 0


async def test_what_is_listed_is_told_with_the_context_that_the_server_names() -> None:
    rows: dict[str, Mapping[str, Any]] = {
        "vllm": {"max_model_len": 32_768},
        "openrouter": {"context_length": 200_000},
        "groq": {"context_window": 131_072},
        "silent": {"context_length": None},
    }
    async with serving(FakeServer(listed(rows)), "own") as (model, server):
        found = await model.listed_models()
    assert (server.requests[0].method, server.requests[0].path) == ("GET", "/v1/models")
    assert {one.name: one.context for one in found} == {
        **{"vllm": 32_768, "openrouter": 200_000, "groq": 131_072, "silent": None}
    }


@pytest.mark.parametrize(("props", "context"), [({"n_ctx": 8192}, 8192), ({}, None)])
async def test_llama_server_tells_the_context_of_a_slot_and_not_that_of_training(
    props: dict[str, int], context: int | None
) -> None:
    routes = {
        "/v1/models": listed({"model.gguf": {"meta": {"n_ctx_train": 131_072}}}),
        "/props": Say({"default_generation_settings": props, "total_slots": 4}),
    }
    async with serving(Routed(routes), "llamacpp") as (model, _):
        assert await model.listed_models() == (ListedModel("model.gguf", context),)


async def test_ollama_tells_the_context_of_a_model_that_is_loaded_and_of_no_other() -> None:
    loaded = {"models": [{"name": "llama3.2:latest", "model": "llama3.2:latest", "context_length": 4096}]}
    routes = {"/v1/models": listed({"llama3.2:latest": {}, "qwen3:8b": {}}), "/api/ps": Say(loaded)}
    async with serving(Routed(routes), "ollama", "llama3.2") as (model, _):
        assert await model.listed_models() == (ListedModel("llama3.2", 4096), ListedModel("qwen3:8b", None))


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (fake.error(401, "Invalid API Key"), PermanentError),
        (fake.error(503, "Loading model"), TransientError),
        (Say({"object": "list"}), UselessAnswerError),
    ],
)
async def test_a_list_that_is_refused_is_told_as_a_call_would_be(said: Say, error: type[NewsproofError]) -> None:
    async with serving(FakeServer(said), "llamacpp") as (model, _):
        with pytest.raises(error):
            await model.listed_models()


@pytest.mark.parametrize(
    ("provider", "start"),
    [("ollama", r"\(ollama serve\)"), ("llamacpp", r"\(llama-server -m "), ("own", "start it, or")],
)
async def test_a_local_server_that_is_not_running_is_told_with_the_command_that_starts_it(
    provider: str, start: str
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        model = model_at(f"http://127.0.0.1:{free.getsockname()[1]}/v1", provider)
        for asking in (model.perform(ASK), model.listed_models()):
            with pytest.raises(TransientError, match=start) as caught:
                await asyncio.ensure_future(asking)
            assert caught.value.kind == "network"
            setting = "OPENAI_GATEWAYS" if provider == "own" else f"{provider.upper()}_BASE_URL"
            assert setting in str(caught.value)
        await model.close()


@pytest.mark.parametrize(
    ("provider", "said", "told"),
    [
        ("ollama", fake.error(404, "model 'qwen3:8b' not found"), "ollama pull qwen3:8b"),
        ("own", fake.error(404, "The model `qwen3:8b` does not exist.", code=404), "load it there"),
        ("own", fake.error(404, "404 page not found"), "OPENAI_GATEWAYS, up to and with its version"),
        ("llamacpp", fake.error(401, "Invalid API Key"), "OPENAI_KEY_NAME"),
        ("own", fake.error(401, "Unauthorized"), "OPENAI_KEY_OWN"),
    ],
)
async def test_a_refusal_of_a_local_server_says_what_to_do_there(provider: str, said: Say, told: str) -> None:
    async with serving(FakeServer(said), provider) as (model, _):
        with pytest.raises(PermanentError, match=told):
            await model.perform(ASK)
