"""Our adapter against llama.cpp's own server. The model's words mean nothing; the protocol does.

The shapes that the server really sends are asked for without the adapter, beside what the adapter makes of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import jsonschema
import orjson
import pytest
from msgspec.structs import replace

from agents.planning.plan_tools import decide_next_tools
from agents.planning.tools import TOOLS
from agents.prompts import load_prompts
from infra.models import live_models
from infra.models.openai_compatible import OpenAICompatibleModel
from infra.settings import Settings
from schemas.config import Prompt
from schemas.effects import Failure, ModelReply, Trusted
from schemas.errors import PermanentError
from tests.foreign.conftest import NAME
from tests.foreign.tiny_gguf import CONTEXT
from tests.infra.fakes.gemini import ASK

# The first run builds the server, which no test's time could hold.
pytestmark = [pytest.mark.foreign, pytest.mark.timeout(60, func_only=True)]

STRUCTURED = [prompt for prompt in load_prompts().values() if prompt.schema is not None]
PLAN = decide_next_tools(tuple(TOOLS))
FORCED = replace(ASK, functions=(PLAN,), forced_function=PLAN.name, max_output_tokens=2000)
LONG = 15_000
"""Tokens of an answer that is still being written when its caller has gone."""
SAID = [{"role": "user", "content": "Judge this."}]


@pytest.fixture
async def model(llama_url: str) -> AsyncIterator[OpenAICompatibleModel]:
    """The adapter as the settings make it, for a name that the server does not know."""
    named = Settings(_env_file=None, llamacpp_base_url=f"{llama_url}/v1", model_light="llamacpp:qwen3", model_heavy="llamacpp:qwen3")  # type: ignore[call-arg]  # fmt: skip
    port: Any = live_models(named)[0]["light"]
    yield port
    await port.close()


async def chat(llama: httpx.AsyncClient, **body: Any) -> httpx.Response:
    return await llama.post("/v1/chat/completions", json={"messages": SAID, "ignore_eos": True, **body})


@pytest.mark.parametrize("prompt", STRUCTURED, ids=lambda prompt: prompt.name)
async def test_every_schema_of_ours_is_kept_by_the_grammar_that_the_server_makes_of_it(
    model: OpenAICompatibleModel, prompt: Prompt
) -> None:
    answer = await model.perform(
        replace(ASK, response_schema=prompt.schema, max_output_tokens=prompt.max_output_tokens)
    )
    assert isinstance(answer.reply, ModelReply), answer.reply
    assert answer.reply.finish_reason == "stop" and not answer.reply.repaired
    jsonschema.validate(answer.reply.data, prompt.schema)


async def test_the_forced_function_is_called_with_arguments_of_its_schema(model: OpenAICompatibleModel) -> None:
    answer = await model.perform(FORCED)
    assert isinstance(answer.reply, ModelReply), answer.reply
    assert [call.name for call in answer.reply.function_calls] == [PLAN.name]
    jsonschema.validate(answer.reply.function_calls[0].args, PLAN.parameters)


@pytest.mark.parametrize("choice", ["required", "auto", {"type": "function", "function": {"name": PLAN.name}}])
async def test_only_the_word_required_keeps_the_model_from_ending_without_a_call(
    llama: httpx.AsyncClient, choice: Any
) -> None:
    [end] = (await llama.post("/tokenize", json={"content": "<|im_end|>", "parse_special": True})).json()["tokens"]
    tool = {"type": "function", "function": {"name": PLAN.name, "parameters": PLAN.parameters}}
    wants_to_end = {"logit_bias": [[end, 50]], "ignore_eos": False, "max_tokens": 20}
    said = (await chat(llama, tools=[tool], tool_choice=choice, **wants_to_end)).json()
    assert said["choices"][0]["finish_reason"] == ("length" if choice == "required" else "stop")


async def test_usage_is_counted_as_the_server_tokenizes_and_costs_nothing(
    model: OpenAICompatibleModel, llama: httpx.AsyncClient
) -> None:
    answer = await model.perform(replace(ASK, max_output_tokens=40))
    assert (answer.usage_output_tokens, answer.usage_thinking_tokens, answer.cost_usd) == (40, 0, 0)
    said = (await chat(llama, max_tokens=40)).json()
    applied = (await llama.post("/apply-template", json={"messages": SAID})).json()["prompt"]
    tokens = (await llama.post("/tokenize", json={"content": applied, "parse_special": True})).json()["tokens"]
    assert said["usage"]["prompt_tokens"] == len(tokens)
    assert said["usage"] | {"prompt_tokens_details": {}} == {
        "completion_tokens": 40,
        "prompt_tokens": len(tokens),
        "total_tokens": len(tokens) + 40,
        "prompt_tokens_details": {},
    }


async def test_json_that_is_cut_is_no_answer_but_is_counted(model: OpenAICompatibleModel) -> None:
    answer = await model.perform(replace(ASK, response_schema=STRUCTURED[0].schema, max_output_tokens=5))
    assert isinstance(answer.reply, Failure) and answer.reply.kind == "cut"
    assert "cut at 5 tokens" in answer.reply.message and answer.usage_output_tokens == 5


async def test_a_request_beyond_the_context_is_too_large_and_the_server_says_by_how_much(
    model: OpenAICompatibleModel, llama: httpx.AsyncClient
) -> None:
    text = "1" * (CONTEXT + 100)
    with pytest.raises(PermanentError, match=f"available context size \\({CONTEXT} tokens\\)") as caught:
        await model.perform(replace(ASK, parts=(Trusted(text),)))
    assert caught.value.kind == "too_large"
    refused = await chat(llama, messages=[{"role": "user", "content": text}])
    error = refused.json()["error"]
    assert refused.status_code == 400 and error.keys() == {"code", "message", "type", "n_prompt_tokens", "n_ctx"}
    assert (error["code"], error["type"], error["n_ctx"]) == (400, "exceed_context_size_error", CONTEXT)
    assert error["n_prompt_tokens"] > CONTEXT


async def test_an_answer_that_grows_beyond_the_context_ends_there(llama: httpx.AsyncClient) -> None:
    messages = [{"role": "user", "content": "1" * (CONTEXT - 300)}]
    said = (await chat(llama, messages=messages, max_tokens=1000)).json()
    assert said["choices"][0]["finish_reason"] == "length"
    assert said["usage"]["total_tokens"] <= CONTEXT


async def test_the_list_names_the_model_and_its_context(model: OpenAICompatibleModel, llama: httpx.AsyncClient) -> None:
    [listed] = await model.listed_models()
    assert (listed.name, listed.context) == (NAME, CONTEXT)
    [row] = (await llama.get("/v1/models")).json()["data"]
    assert row["meta"]["n_ctx_train"] == CONTEXT and row["owned_by"] == "llamacpp"
    props = (await llama.get("/props")).json()
    assert (props["default_generation_settings"]["n_ctx"], props["total_slots"]) == (CONTEXT, 1)


async def test_a_name_that_the_server_does_not_know_is_answered_all_the_same(model: OpenAICompatibleModel) -> None:
    assert model.model == "qwen3"
    answer = await model.perform(replace(ASK, max_output_tokens=5))
    assert answer.model == NAME


async def test_a_stream_comes_in_events_and_ends_with_its_usage(llama: httpx.AsyncClient) -> None:
    body = {
        "messages": SAID,
        "ignore_eos": True,
        "max_tokens": 20,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    async with llama.stream("POST", "/v1/chat/completions", json=body) as response:
        lines = [line async for line in response.aiter_lines() if line]
    assert response.headers["content-type"].startswith("text/event-stream") and lines[-1] == "data: [DONE]"
    chunks = [orjson.loads(line.removeprefix("data: ")) for line in lines[:-1]]
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    assert choices[0]["delta"]["role"] == "assistant" and choices[-1]["finish_reason"] == "length"
    assert "".join(choice["delta"].get("content") or "" for choice in choices)
    assert chunks[-1]["usage"]["completion_tokens"] == 20


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
async def test_a_caller_who_goes_away_frees_the_slot(
    model: OpenAICompatibleModel, llama: httpx.AsyncClient, streamed: bool
) -> None:
    before = await written(llama)
    if streamed:
        body = {"messages": SAID, "ignore_eos": True, "max_tokens": LONG, "stream": True}
        async with llama.stream("POST", "/v1/chat/completions", json=body) as response:
            await anext(response.aiter_lines())
    else:
        asking = asyncio.create_task(model.perform(replace(ASK, max_output_tokens=LONG)))
        while not await busy(llama):
            assert not asking.done(), asking.result()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
    await chat(llama, max_tokens=1)  # waits for the only slot
    assert await written(llama) - before < LONG


async def busy(llama: httpx.AsyncClient) -> bool:
    """Whether the only slot is at work."""
    [slot] = (await llama.get("/slots")).json()
    return bool(slot["is_processing"])


async def written(llama: httpx.AsyncClient) -> float:
    """Tokens of all answers so far."""
    lines = (await llama.get("/metrics")).text.splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("llamacpp:tokens_predicted_total "))


async def test_a_schema_that_no_grammar_can_be_made_of_is_refused_by_name(
    model: OpenAICompatibleModel, llama: httpx.AsyncClient
) -> None:
    bag = {"type": "bag"}
    refused = await chat(llama, response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": bag}})
    error = refused.json()["error"]
    assert refused.status_code == 400 and error.keys() == {"code", "message", "type"}
    assert (error["code"], error["type"]) == (400, "invalid_request_error") and "JSON schema error" in error["message"]
    answer = await model.perform(replace(ASK, response_schema=bag))
    assert isinstance(answer.reply, ModelReply) and isinstance(answer.reply.data, dict), "asked for in words instead"
