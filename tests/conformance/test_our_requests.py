"""Every prompt of ours, as it goes out today, is a request that the documentation takes, answered in the shape it asks for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from agents.planning.plan_tools import decide_next_tools
from agents.planning.tools import TOOLS
from agents.prompts import all_prompts
from agents.verification.single_pass_tools import functions
from infra.settings import Settings
from infra.settings.verification import FULL_PIPELINE
from newsproof.app.composition import snapshot_of
from schemas.config import Prompt
from schemas.effects import CallModel, FunctionDeclaration, ModelReply, Trusted
from tests.conformance.driving import asked
from tests.conformance.rows import Must, Row, good

PROMPTS = (*all_prompts(), *all_prompts("research"))
OF_GEMINI = frozenset(
    [
        "$id", "$defs", "$ref", "$anchor", "type", "format", "title", "description", "enum", "items", "prefixItems",
        "minItems", "maxItems", "minimum", "maximum", "anyOf", "oneOf", "properties", "additionalProperties",
        "required", "propertyOrdering",
    ]
)  # fmt: skip
"""Words of JSON Schema that responseJsonSchema knows (https://ai.google.dev/api/generate-content, 2026-11-23)."""


def offered(prompt: Prompt) -> tuple[FunctionDeclaration, ...]:
    if prompt.name == "plan":
        return (decide_next_tools(tuple(TOOLS)),)
    if prompt.name == "single_pass":
        return functions(snapshot_of(Settings(newsproof_mode="offline", **FULL_PIPELINE)))  # type: ignore[arg-type]
    return ()


def call_of(prompt: Prompt) -> CallModel:
    declared = offered(prompt)
    return CallModel(
        task=prompt.name,
        tier="heavy",
        prompt_name=prompt.name,
        prompt_version=prompt.version,
        prompt_hash=prompt.hash,
        system="You judge crypto news.",
        parts=(Trusted("Who said so?"),),
        temperature=prompt.temperature,
        max_output_tokens=prompt.max_output_tokens,
        thinking=prompt.thinking,
        functions=declared,
        forced_function=declared[0].name if prompt.name == "plan" else None,
        response_schema=prompt.schema,
    )


def words_of(schema: Any) -> Iterator[str]:
    """Yield the words of JSON Schema in it; names of properties are none."""
    if isinstance(schema, list):
        for one in schema:
            yield from words_of(one)
    elif isinstance(schema, dict):
        for word, value in schema.items():
            yield word
            named = word in {"properties", "$defs"}
            yield from (w for one in value.values() for w in words_of(one)) if named else words_of(value)


@pytest.mark.parametrize("provider", ["gemini", "openai"])
@pytest.mark.parametrize("prompt", PROMPTS, ids=[f"{p.name}.v{p.version}" for p in PROMPTS])
async def test_every_prompt_is_a_request_that_is_documented(prompt: Prompt, provider: str) -> None:
    row = Row("ours", (provider,), "a good answer", Must(), good)
    call = call_of(prompt)
    async with asked(provider, row) as (host, _, server):
        [done] = await host.perform(call, case_id="case", head_id="head", attempt=1)
    assert server.refusals == []
    assert isinstance(done.reply, ModelReply), done.reply
    assert (done.reply.data is not None, len(done.reply.function_calls)) == (
        call.response_schema is not None,
        int(call.forced_function is not None),
    )


@pytest.mark.parametrize("prompt", PROMPTS, ids=[f"{p.name}.v{p.version}" for p in PROMPTS])
def test_every_schema_of_ours_keeps_to_the_words_that_gemini_knows(prompt: Prompt) -> None:
    schemas = [prompt.schema, *(f.parameters for f in offered(prompt))]
    assert {word for schema in schemas for word in words_of(schema)} <= OF_GEMINI
