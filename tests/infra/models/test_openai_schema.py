"""Every schema that we send has a strict form, and what comes back by it decodes as by our own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from agents import prompts
from agents.planning.plan_tools import decide_next_tools
from agents.planning.tools import TOOLS
from agents.verification.single_pass_tools import FETCH_MEMORIES, SEARCH_NEWS
from infra.models.openai_asking import strict, without_stand_ins

FOLDER = Path(prompts.__file__).parent
FUNCTIONS = (decide_next_tools(tuple(TOOLS)), FETCH_MEMORIES, SEARCH_NEWS)
OURS: dict[str, dict[str, Any]] = {
    **{path.name: orjson.loads(path.read_bytes()) for path in sorted(FOLDER.rglob("*.schema.json"))},
    **{one.name: one.parameters for one in FUNCTIONS},
}
TAKEN = {
    *{"type", "properties", "required", "items", "enum", "anyOf", "additionalProperties", "description"},
    *{"minimum", "maximum", "minItems", "maxItems"},
}


def objects(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every schema within a schema, itself too."""
    yield schema
    for one in (*schema.get("properties", {}).values(), *schema.get("anyOf", ()), schema.get("items")):
        if isinstance(one, dict):
            yield from objects(one)


@pytest.mark.parametrize("name", OURS)
def test_every_schema_of_ours_has_a_strict_form_of_the_keywords_that_are_taken(name: str) -> None:
    made = strict(OURS[name])
    assert made is not None and made["type"] == "object" and "anyOf" not in made
    for one in objects(made):
        assert set(one) <= TAKEN
        if one.get("type") == "object":
            assert one["additionalProperties"] is False and one["required"] == list(one["properties"])
        else:
            assert "object" not in one.get("type", ()), "nothing else may hold an object's properties"
    assert len(OURS) > 12


@pytest.mark.parametrize("name", [name for name, schema in OURS.items() if "propertyOrdering" in schema])
def test_the_order_of_properties_that_gemini_is_told_is_the_order_in_the_strict_form(name: str) -> None:
    made = strict(OURS[name])
    assert made is not None and list(made["properties"]) == OURS[name]["propertyOrdering"]


def test_what_may_be_left_out_is_null_in_the_strict_form_and_left_out_again_in_the_answer() -> None:
    schema = OURS["critique.v3.schema.json"]
    made = strict(schema)
    assert made is not None
    row = made["properties"]["references"]["items"]["properties"]
    assert row["reason"] == {"anyOf": [{"type": "string"}, {"type": "null"}]}
    assert row["quote"] == {"type": ["string", "null"]}, "it may be null in our own"
    answer = {"references": [{"number": 1, "stance": "denies", "quote": None, "reason": None, "cites": "Reuters"}]}
    found = without_stand_ins(schema, answer)
    assert found == {"references": [{"number": 1, "stance": "denies", "quote": None, "cites": "Reuters"}]}


def test_an_object_or_null_is_one_of_both() -> None:
    made = strict(OURS["draft.v3.schema.json"])
    assert made is not None
    whole, nothing = made["properties"]["claim"]["properties"]["amount"]["anyOf"]
    assert (whole["required"], whole["additionalProperties"], nothing) == (["value", "unit"], False, {"type": "null"})
    assert "amount" in without_stand_ins(OURS["draft.v3.schema.json"], {"claim": {"amount": None}})["claim"]


def test_what_a_server_adds_or_breaks_is_left_to_the_readers_of_answers() -> None:
    schema = OURS["synthesize.v3.schema.json"]
    assert without_stand_ins(schema, {"adjustment": None, "reason": None, "more": None}) == {
        "reason": None,
        "more": None,
    }
    assert without_stand_ins(schema, [1]) == [1] and without_stand_ins(schema, None) is None


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": {"type": "string"}},
        {"type": "object"},
        {"type": "object", "properties": {"a": {"type": "object"}}},
        {"type": "object", "properties": {}, "additionalProperties": True},
        {"type": "object", "properties": {"a": {"type": "string", "maxLength": 3}}},
        {"type": "object", "properties": {"a": {"oneOf": [{"type": "string"}]}}},
    ],
)
def test_a_schema_of_other_keywords_or_of_any_properties_has_no_strict_form(schema: dict[str, Any]) -> None:
    assert strict(schema) is None
