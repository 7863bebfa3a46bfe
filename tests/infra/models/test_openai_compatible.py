"""The OpenAI-compatible adapter on its real wire shape: what it sends, what it reads, and every failure translated."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from agents import prompts
from infra.models.call_costs import Prices
from infra.models.openai_client import OpenAICompatibleClient
from infra.models.openai_compatible import SERVICE, Dialect, OpenAICompatibleModel
from schemas.effects import MOST_OUTPUT_TOKENS, CallModel, Failure, ModelReply
from schemas.errors import ConfigError, NewsproofError, PermanentError, TransientError
from tests.infra.fakes import openai as fake
from tests.infra.fakes.gemini import ASK, FORCED, PLAN, SCHEMA, STRUCTURED
from tests.infra.fakes.openai import openai
from tests.infra.fakes.server import Behaviour, FakeServer, Say

JSON = '{"confidence": 0.5}'


async def test_a_plain_question_goes_out_with_the_key_and_marks_and_comes_back_with_every_token_and_its_price() -> None:
    async with openai(fake.text("yes")) as (model, server):
        answer = await model.perform(ASK)
    [asked] = server.requests
    assert (asked.method, asked.path, asked.headers["authorization"]) == (
        "POST",
        "/v1/chat/completions",
        "Bearer sk-secret",
    )
    system, said = asked.json["messages"]
    assert system["role"] == "system" and system["content"].startswith(
        "You judge crypto news.\n\nText between [[UNTRUSTED"
    )
    assert "[[UNTRUSTED" in said["content"] and "SEC 批准比特币现货 ETF" in said["content"]
    sent = {k: asked.json[k] for k in ("model", "max_tokens", "temperature", "stream")}
    assert sent == {"model": "gpt-5-mini", "max_tokens": 500 + 512, "temperature": 0.2, "stream": False}
    assert "tools" not in asked.json and "response_format" not in asked.json
    assert answer.reply == ModelReply(text="yes", finish_reason="stop")
    assert (answer.model, answer.usage_input_tokens, answer.usage_cached_tokens) == ("gpt-5-mini-2025-08-07", 1000, 400)
    assert (answer.usage_output_tokens, answer.usage_thinking_tokens) == (200, 300)
    assert answer.cost_usd is not None and answer.cost_usd > 0 and answer.cost_source.startswith("genai-prices")


@pytest.mark.parametrize(
    ("words", "repaired"),
    [
        (JSON, False),
        (f"```json\n{JSON}\n```", True),
        (f"<think>hm</think>\n{JSON}", False),
        (f"the template opened the tag</think>\n{JSON}", False),
        (f"<think>{{}}</think>```json\n{JSON}\n```", True),
    ],
)
async def test_a_structured_answer_is_asked_for_by_its_schema_and_parsed(words: str, repaired: bool) -> None:
    async with openai(fake.text(words)) as (model, server):
        answer = await model.perform(STRUCTURED)
    wanted = server.requests[0].json["response_format"]
    strict = {**SCHEMA, "additionalProperties": False}
    assert wanted == {"type": "json_schema", "json_schema": {"name": "triage", "schema": strict, "strict": True}}
    assert isinstance(answer.reply, ModelReply)
    assert (answer.reply.data, answer.reply.repaired) == ({"confidence": 0.5}, repaired)


def unsupported(name: str) -> Say:
    return fake.error(400, f"Unsupported parameter: '{name}' is not supported with this model.", param=name)


async def test_what_a_server_refuses_by_name_is_asked_for_in_words_and_remembered() -> None:
    script = (
        unsupported("response_format"),
        unsupported("temperature"),
        unsupported("response_format"),
        fake.text(JSON),
    )
    async with openai(*script) as (model, server):
        first = await model.perform(STRUCTURED)
        second = await model.perform(STRUCTURED)
    kinds = [r.json.get("response_format", {}).get("type") for r in server.requests]
    assert kinds == ["json_schema", "json_object", "json_object", None, None], "what was learned is not tried again"
    last = server.requests[-1].json
    assert "temperature" not in last and '"confidence"' in last["messages"][0]["content"]
    assert isinstance(first.reply, ModelReply) and first.reply == second.reply


async def test_the_name_of_the_token_limit_is_learned_and_the_limit_never_dropped() -> None:
    async with openai(unsupported("max_tokens"), fake.text("a"), unsupported("max_completion_tokens")) as (
        model,
        server,
    ):
        await model.perform(ASK)
        with pytest.raises(PermanentError):
            await model.perform(ASK)
    limits = [(r.json.get("max_tokens"), r.json.get("max_completion_tokens")) for r in server.requests]
    assert limits == [(1012, None), (None, 1012), (None, 1012)], (
        "500 for the answer, 512 for what gpt-5-mini thinks at least"
    )


async def test_a_limit_that_is_too_large_is_no_reason_to_give_it_another_name() -> None:
    too_large = fake.error(400, "max_tokens: 90000 > 64000, which is the maximum allowed number of output tokens")
    async with openai(too_large, fake.text("a")) as (model, server):
        with pytest.raises(PermanentError):
            await model.perform(replace(ASK, max_output_tokens=MOST_OUTPUT_TOKENS, thinking="high"))
        await model.perform(ASK)
    assert [r.json["max_tokens"] for r in server.requests] == [MOST_OUTPUT_TOKENS, 1012]


async def test_a_server_that_forces_no_function_by_name_is_offered_only_that_one_and_else_asked_for_a_plan() -> None:
    script = (
        unsupported("tool_choice"),
        unsupported("tool_choice"),
        fake.text('{"tools": [], "reason": "r", "search_keywords": null}'),
    )
    async with openai(*script) as (model, server):
        answer = await model.perform(FORCED)
    named, required, plan = (r.json for r in server.requests)
    assert (named["tool_choice"]["type"], required["tool_choice"]) == ("function", "required")
    assert [t["function"]["name"] for t in required["tools"]] == [PLAN.name]
    assert "tools" not in plan and plan["response_format"]["json_schema"]["strict"] is True
    assert PLAN.name in plan["messages"][0]["content"] and PLAN.description in plan["messages"][0]["content"]
    assert isinstance(answer.reply, ModelReply) and answer.reply.data is None
    assert answer.reply.function_calls[0].name == PLAN.name
    assert answer.reply.function_calls[0].args["tools"] == []


@pytest.mark.parametrize(
    "said",
    [
        fake.error(400, "registry.ollama.ai/library/gemma:2b does not support tools"),
        fake.error(404, "No endpoints found that support tool use. Try disabling decide_next_tools"),
        fake.error(500, "tools param requires --jinja flag", type="server_error"),
    ],
    ids=["Ollama", "OpenRouter", "llama-server"],
)
async def test_a_server_without_tools_is_asked_for_a_plan_and_for_an_answer_from_what_is_given(said: Say) -> None:
    async with openai(said, fake.text('{"tools": [], "reason": "r"}'), fake.text("hm")) as (model, server):
        planned = await model.perform(FORCED)
        free = await model.perform(replace(FORCED, forced_function=None))
    assert isinstance(planned.reply, ModelReply) and planned.reply.function_calls
    assert free.reply == ModelReply(text="hm", finish_reason="stop")
    assert [("tools" in r.json) for r in server.requests] == [True, False, False]
    assert "No function can be called here" in server.requests[-1].json["messages"][0]["content"]


async def test_a_plan_that_is_no_object_is_useless_and_paid() -> None:
    async with openai(unsupported("tools"), fake.text("[]")) as (model, _):
        answer = await model.perform(FORCED)
    assert isinstance(answer.reply, Failure) and answer.reply.kind == "invalid_output" and answer.reply.retryable
    assert answer.cost_usd


async def test_a_server_that_takes_no_strict_schema_gets_ours_as_it_is() -> None:
    refusal = fake.error(400, "Invalid schema for response_format 'triage': 'minimum' is not permitted.")
    async with openai(refusal, fake.text(JSON)) as (model, server):
        answer = await model.perform(STRUCTURED)
    assert server.requests[1].json["response_format"]["json_schema"] == {"name": "triage", "schema": SCHEMA}
    assert isinstance(answer.reply, ModelReply) and answer.reply.data == {"confidence": 0.5}


async def test_a_schema_that_cannot_be_strict_is_said_to_be_none() -> None:
    free = {"type": "object", "properties": {"of": {"type": "object"}}, "required": ["of"]}
    async with openai(fake.text('{"of": {"a": null}}')) as (model, server):
        answer = await model.perform(replace(STRUCTURED, response_schema=free))
    sent = server.requests[0].json["response_format"]["json_schema"]
    assert sent == {"name": "triage", "schema": free, "strict": False}
    assert isinstance(answer.reply, ModelReply) and answer.reply.data == {"of": {"a": None}}


async def test_thinking_has_room_of_its_own_beside_the_answer_and_in_the_worst_case() -> None:
    thoughtful = replace(ASK, thinking="medium")
    async with openai(fake.text("yes")) as (model, server):
        await model.perform(ASK)
        await model.perform(thoughtful)
        least, most = model.worst_case_usd(ASK), model.worst_case_usd(thoughtful)
        priced = model._prices.worst_case_usd("gpt-5-mini", 0, 4096 - 512)
    asked = [(r.json["reasoning_effort"], r.json["max_tokens"]) for r in server.requests]
    assert asked == [("minimal", 500 + 512), ("medium", 500 + 4096)]
    assert least is not None and most is not None and most - least == priced


async def test_an_effort_that_a_server_refuses_by_name_is_left_out_and_the_limit_stays_as_reserved() -> None:
    refusal = fake.error(400, '"llama3" does not support thinking')
    async with openai(refusal, fake.text("yes"), model="llama3") as (model, server):
        await model.perform(replace(ASK, thinking="low"))
        await model.perform(replace(ASK, thinking="low"))
    assert [r.json.get("reasoning_effort") for r in server.requests] == ["low", None, None]
    assert {r.json["max_tokens"] for r in server.requests} == {500 + 1024}


THOUGHTS = [
    ("<think>a\nb</think>\nyes", "yes"),
    ("  <think>a</think>yes<think>b</think>", "yes"),
    ("ye<thinking>a</thinking>s", "yes"),
    ("a, or b?</think>\n\nyes", "yes"),
    ("yes<think>never closed", "yes"),
    ('"<think> is a word"', '"<think> is a word"'),
    ("yes", "yes"),
]


@pytest.mark.parametrize(("said", "answered"), THOUGHTS)
async def test_thinking_is_kept_out_of_the_answer_wherever_a_server_leaves_it(said: str, answered: str) -> None:
    message = {"content": said, "reasoning_content": "hm", "reasoning": "hm"}
    async with openai(fake.completion(message)) as (model, _):
        answer = await model.perform(ASK)
    assert answer.reply == ModelReply(text=answered, finish_reason="stop")


async def test_reasoning_that_a_server_counts_beside_the_answer_is_paid_too() -> None:
    apart = {**fake.USAGE, "completion_tokens": 500, "total_tokens": 1800}
    async with openai(fake.text("yes"), fake.text("yes", usage=apart)) as (model, _):
        within, beside = await model.perform(ASK), await model.perform(ASK)
    assert (within.usage_output_tokens, within.usage_thinking_tokens) == (200, 300)
    assert (beside.usage_output_tokens, beside.usage_thinking_tokens) == (500, 300)


ANSWERED: dict[str, Behaviour] = {
    "plain": fake.text("yes"),
    "json": fake.text(JSON),
    "plan": fake.text('{"tools": []}'),
}
LARGEST = orjson.loads((Path(prompts.__file__).parent / "critique.v3.schema.json").read_bytes())


@pytest.mark.parametrize(
    ("effect", "answer"),
    [
        (ASK, "plain"),
        (FORCED, "plan"),
        (replace(FORCED, forced_function=None), "plain"),
        (replace(STRUCTURED, response_schema=LARGEST), "json"),
    ],
    ids=["text", "forced", "offered", "structure"],
)
@pytest.mark.parametrize(
    ("structure", "forcing", "strict"),
    [
        ("json_schema", "name", True),
        ("json_schema", "required", False),
        ("json_schema", "plan", True),
        ("json_object", "required", True),
        ("json_object", "plan", False),
        ("", "plan", True),
    ],
)
async def test_what_is_reserved_covers_every_byte_that_any_dialect_sends(
    effect: CallModel, answer: str, structure: Any, forcing: Any, strict: bool
) -> None:
    dialect = Dialect(structure=structure, forcing=forcing, strict=strict, tools=forcing != "plan")
    async with FakeServer(ANSWERED[answer]) as server:
        prices = Prices(provider="openai")
        client = OpenAICompatibleClient(SERVICE, api_key="k", base_url=f"{server.url}/v1", prices=prices)
        model = OpenAICompatibleModel(client, model="gpt-5-mini", dialect=dialect)
        await model.perform(effect)
        [sent] = server.requests
        price = prices.worst_case_usd("gpt-5-mini", len(sent.body), sent.json["max_tokens"])
        reserved = model.worst_case_usd(effect)
        assert price is not None and reserved is not None and price <= reserved
        await model.close()


USELESS: list[tuple[str, Behaviour, CallModel]] = [
    ("empty", fake.text(""), ASK),
    ("only thoughts", fake.completion({"content": "<think>only this"}), ASK),
    ("only reasoning", fake.completion({"content": "", "reasoning_content": "only this"}), ASK),
    ("a function out of nowhere", fake.call(PLAN.name, "{}"), ASK),
    ("arguments no object", fake.call(PLAN.name, "[]"), FORCED),
    ("a strange end", fake.text("x", finish="bored"), ASK),
    ("tool calls no list", fake.completion({"tool_calls": 7}), FORCED),
    ("no message", Say({"choices": [{}], "usage": fake.USAGE}), ASK),
]


@pytest.mark.parametrize(("behaviour", "effect"), [i[1:] for i in USELESS], ids=[i[0] for i in USELESS])
async def test_a_useless_answer_is_worth_another_try_and_its_cost_is_not_lost(
    behaviour: Behaviour, effect: CallModel
) -> None:
    async with openai(behaviour) as (model, server):
        answer = await model.perform(effect)
    assert len(server.requests) == 1 and isinstance(answer.reply, Failure)
    assert (answer.reply.kind, answer.reply.retryable) == ("invalid_output", True)
    assert answer.cost_usd is not None and answer.cost_usd > 0


@pytest.mark.parametrize("body", [b"7", b"null", b"{}", b'{"choices": "x", "usage": []}'])
async def test_what_is_no_completion_at_all_costs_an_unknown_amount(body: bytes) -> None:
    async with openai(Say(body)) as (model, _):
        answer = await model.perform(ASK)
    assert isinstance(answer.reply, Failure) and answer.reply.kind == "invalid_output" and answer.cost_usd is None


REFUSED: list[tuple[Say, type[NewsproofError], str]] = [
    (fake.error(403, "Country not supported"), PermanentError, "auth"),
    (fake.error(403, "Project has no access to it", code="model_not_found"), PermanentError, "not_open"),
    (fake.error(404, "404 page not found"), PermanentError, "invalid_request"),
    (
        fake.error(400, "exceeds the available context size", type="exceed_context_size_error"),
        PermanentError,
        "too_large",
    ),
    (fake.error(400, "This model's maximum context length is 4096 tokens."), PermanentError, "too_large"),
    (fake.error(413), PermanentError, "too_large"),
    (fake.error(400, "Invalid schema"), PermanentError, "invalid_request"),
    (Say(b"<html>busy</html>", status=502), TransientError, "unavailable"),
]


@pytest.mark.parametrize(("said", "kind_of_error", "kind"), REFUSED, ids=[f"{s.status}-{k}" for s, _, k in REFUSED])
async def test_every_status_becomes_one_of_our_errors(
    said: Say, kind_of_error: type[NewsproofError], kind: str
) -> None:
    async with openai(said) as (model, server):
        with pytest.raises(kind_of_error) as caught:
            await model.perform(ASK)
    assert getattr(caught.value, "kind", None) == kind and len(server.requests) == 1
    assert "sk-secret" not in str(caught.value)
    names_the_key = "valid one into OPENAI_API_KEY" in str(caught.value)
    assert names_the_key == (kind == "auth"), "a model that is not open is never told as a wrong key"


async def test_without_a_price_list_the_cost_is_unknown_and_never_zero() -> None:
    async with openai(fake.text("yes"), prices=None) as (model, _):
        answer = await model.perform(ASK)
        assert answer.cost_usd is None and model.worst_case_usd(ASK) is None
    known = OpenAICompatibleModel(OpenAICompatibleClient(SERVICE, api_key="k"), model="gpt-5-mini")
    worst = known.worst_case_usd(ASK)
    assert worst is not None and worst > Decimal(0)
    assert known.worst_case_usd(replace(ASK, max_output_tokens=9000)) > worst  # type: ignore[operator]
    await known.close()


@pytest.mark.parametrize("wrong", [{"api_key": " "}, {"api_key": "“k”"}, {"api_key": "k", "base_url": "ftp://x"}])
def test_a_key_or_an_address_that_cannot_be_one_is_refused_at_once(wrong: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="OPENAI_"):
        OpenAICompatibleClient(SERVICE, **wrong)  # type: ignore[arg-type]
