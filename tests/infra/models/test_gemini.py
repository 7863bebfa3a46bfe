from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from infra.http import UselessAnswerError
from infra.models.call_costs import Prices
from infra.models.gemini import GeminiModel
from infra.models.gemini_client import GeminiClient
from schemas.effects import CallModel, ModelReply, Trusted
from tests.infra.fakes import gemini as fake
from tests.infra.fakes.gemini import ASK, FORCED, PLAN, STRUCTURED, gemini
from tests.infra.fakes.server import Behaviour, Say


async def reply_of(behaviour: Behaviour, effect: CallModel) -> ModelReply:
    async with gemini(behaviour) as (model, _):
        answer = await model.perform(effect)
    assert isinstance(answer.reply, ModelReply)
    return answer.reply


# What goes out


async def test_a_call_is_one_post_to_the_model_with_the_key_in_its_header() -> None:
    async with gemini(fake.text("ok")) as (model, server):
        await model.perform(ASK)
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/v1/models/gemini-2.5-pro:generateContent")
    assert request.headers["x-goog-api-key"] == "AIza-secret"
    assert "tools" not in request.json
    assert request.json["contents"][0]["role"] == "user"
    assert request.json["contents"][0]["parts"][0] == {"text": "Judge this:"}


async def test_functions_that_are_not_forced_leave_the_choice_to_the_model() -> None:
    effect = msgspec.structs.replace(ASK, functions=(PLAN,))
    async with gemini(fake.text("no tool needed")) as (model, server):
        answer = await model.perform(effect)
    assert server.requests[0].json["toolConfig"]["functionCallingConfig"] == {"mode": "AUTO"}
    assert isinstance(answer.reply, ModelReply)
    assert answer.reply.text == "no tool needed"


@pytest.mark.security
async def test_words_from_outside_stand_between_marks_that_are_new_in_every_call() -> None:
    async with gemini(fake.text("ok")) as (model, server):
        await model.perform(ASK)
        await model.perform(ASK)
    marks = []
    for request in server.requests:
        outside = request.json["contents"][0]["parts"][1]["text"]
        found = re.fullmatch(r"\[\[UNTRUSTED (\w{16}) history]]\n(.*)\n\[\[/UNTRUSTED \1]]", outside)
        assert found, outside
        assert found[2] == "SEC 批准比特币现货 ETF"
        system = request.json["systemInstruction"]["parts"][0]["text"]
        assert system.startswith("You judge crypto news.\n")
        assert f"[[UNTRUSTED {found[1]}" in system
        marks.append(found[1])
    assert marks[0] != marks[1]


async def test_without_words_from_outside_the_system_text_is_left_alone() -> None:
    async with gemini(fake.text("ok")) as (model, server):
        await model.perform(msgspec.structs.replace(ASK, parts=(Trusted("hi"),)))
    assert server.requests[0].json["systemInstruction"]["parts"] == [{"text": "You judge crypto news."}]


# What comes back


async def test_usage_and_cost_come_with_the_answer() -> None:
    async with gemini(fake.text("ok")) as (model, _):
        answer = await model.perform(ASK)
    # prompt + tool-use prompt, of which cached; candidates; thoughts
    assert (answer.usage_input_tokens, answer.usage_cached_tokens) == (1050, 400)
    assert (answer.usage_output_tokens, answer.usage_thinking_tokens) == (200, 300)
    assert answer.cost_usd == (650 * Decimal("1.25") + 400 * Decimal("0.125") + 500 * Decimal(10)) / 1_000_000
    assert answer.model == "gemini-2.5-pro"
    assert answer.cost_source.endswith(datetime.now(UTC).date().isoformat())


async def test_an_unknown_version_is_priced_as_the_model_that_was_asked() -> None:
    async with gemini(fake.text("ok", modelVersion="brand-new")) as (model, _):
        answer = await model.perform(ASK)
    assert answer.model == "brand-new"
    assert answer.cost_usd is not None


async def test_a_cost_that_cannot_be_known_is_none() -> None:
    async with gemini(fake.text("ok", modelVersion="gemini-99"), model="gemini-99") as (model, _):
        answer = await model.perform(ASK)
    assert (answer.cost_usd, answer.cost_source) == (None, "unknown")


@pytest.mark.parametrize(
    ("text", "data", "repaired"),
    [
        ('{"confidence": 0.5}', {"confidence": 0.5}, False),
        ('```json\n{"confidence": 0.5}\n```', {"confidence": 0.5}, True),
        ("[1, null]", [1, None], False),
    ],
)
async def test_structured_output_is_parsed(text: str, data: Any, repaired: bool) -> None:
    reply = await reply_of(fake.text(text), STRUCTURED)
    assert (reply.data, reply.repaired) == (data, repaired)


async def test_plain_text_that_was_cut_is_kept_and_says_so() -> None:
    reply = await reply_of(fake.text("half a sen", finish="MAX_TOKENS"), ASK)
    assert (reply.text, reply.finish_reason) == ("half a sen", "max_tokens")


# Which models there are


@pytest.mark.parametrize("body", [b"<html>", {"models": 3}, {"models": [7]}])
async def test_what_is_no_list_of_models_is_said_to_be_none(body: Any) -> None:
    async with gemini(Say(body)) as (model, _):
        with pytest.raises(UselessAnswerError, match="not a list of models"):
            await model.listed_models()


@pytest.mark.integration
@pytest.mark.skipif("GEMINI_API_KEY" not in os.environ, reason="needs GEMINI_API_KEY")
async def test_the_real_service_takes_a_forced_call_and_a_schema() -> None:
    client = GeminiClient(api_key=os.environ["GEMINI_API_KEY"], timeout_s=60.0)
    model = GeminiModel(client, model="gemini-2.5-flash-lite", prices=Prices())
    try:
        forced, structured = [await model.perform(effect) for effect in (FORCED, STRUCTURED)]
    finally:
        await model.close()
    assert isinstance(forced.reply, ModelReply)
    assert isinstance(structured.reply, ModelReply)
    assert forced.reply.function_calls[0].name == PLAN.name
    assert "confidence" in structured.reply.data
    assert forced.cost_usd is not None
