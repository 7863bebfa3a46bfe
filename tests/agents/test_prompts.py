"""Prompts: files that parse, schemas that fit the code, and fields that are filled once."""

from __future__ import annotations

import re
from typing import Any, get_args

import pytest
from msgspec.structs import fields, replace

from agents.core.answers import (
    SYNTHESIS_FLAGS,
    ClaimAnswer,
    CritiqueAnswer,
    DraftAnswer,
    ExpandAnswer,
    ReferenceAnswer,
    SlotsAnswer,
    StatedAnswer,
    SynthesisAnswer,
    checked,
)
from agents.core.step import StepFailure
from agents.evidence.passages import sentences_of
from agents.planning.critic_reading import critique_answer
from agents.prompts import all_prompts, load_prompts, render
from schemas.effects import ModelReply
from schemas.errors import ConfigError
from schemas.evidence import PageSays, PageStance, Slot
from schemas.signals import Attribution, EventType, Modality, StatedClaim

BOUNDS = {"minimum", "maximum", "minItems", "maxItems", "minLength", "maxLength", "pattern"}
FILLED = {
    "triage": {"language", "event_types", "predicates"},
    "critique": {"language"},
    "synthesize": {"language", "lowest", "highest"},
    "plan": {"round", "rounds", "tools", "queries"},
    "single_pass": set(),
    "single_pass_final": {"language", "event_types", "predicates"},
}
"""Fields that the steps fill."""


def schema_of(name: str) -> dict[str, Any]:
    schema = load_prompts()[name].schema
    assert schema is not None
    return schema


def objects_of(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the schema's objects with properties, outermost first."""
    inner = [*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])]
    return [*([schema] if "properties" in schema else []), *(o for i in inner for o in objects_of(i))]


def words_of(schema: Any) -> set[str]:
    if isinstance(schema, list):
        return set[str]().union(*map(words_of, schema))
    return set(schema).union(*map(words_of, schema.values())) if isinstance(schema, dict) else set()


def test_every_prompt_has_its_own_hash_and_the_steps_prompts_are_there():
    prompts = load_prompts()
    assert len({p.hash for p in all_prompts()}) == len(all_prompts())
    assert {"triage", "plan", "expand", "critique", "synthesize", "single_pass", "single_pass_final"} == set(prompts)


def test_a_schema_asks_for_the_fields_that_the_code_reads():
    read = {"critique": CritiqueAnswer, "synthesize": SynthesisAnswer, "expand": ExpandAnswer}
    read |= dict.fromkeys(("triage", "single_pass_final"), DraftAnswer)
    asked = {name: set(schema_of(name)["properties"]) for name in read}
    assert asked == {name: set(answer.__struct_fields__) for name, answer in read.items()}


def test_the_schema_of_triage_asks_for_the_claim_before_the_confidence_in_the_words_of_the_code():
    schema = schema_of("triage")
    order = list(schema["properties"])
    assert order.index("claim") < order.index("notes") < order.index("confidence")
    claim = schema["properties"]["claim"]["properties"]
    assert set(claim) == set(StatedAnswer.__struct_fields__) == set(StatedClaim.__struct_fields__)
    assert tuple(schema["properties"]["event_type"]["enum"]) == get_args(EventType)
    assert claim["modality"]["enum"] == list(get_args(Modality))
    assert claim["attribution"]["enum"] == list(get_args(Attribution))


@pytest.mark.parametrize("name", ["triage", "critique", "synthesize", "single_pass_final"])
def test_a_model_is_asked_for_its_fields_in_one_order_and_without_bounds(name):
    # Gemini refuses or ignores bounds, and writes in the order of propertyOrdering; code clamps.
    assert not BOUNDS & words_of(schema_of(name))
    for of in objects_of(schema_of(name)):
        order = list(of["properties"])
        assert of["propertyOrdering"] == order
        assert of["required"] == [field for field in order if field in of["required"]]


def test_the_critic_quotes_before_it_judges_and_every_slot_is_required():
    schema = schema_of("critique")
    assert list(schema["properties"])[:3] == ["references", "claims", "verdict"]
    entry, claim = schema["properties"]["references"]["items"], schema["properties"]["claims"]["items"]
    assert list(entry["properties"])[:4] == ["number", "quote", "reason", "says"]
    assert entry["required"] == list(entry["properties"])
    assert set(entry["properties"]) == set(SlotsAnswer.__struct_fields__)
    assert set(claim["properties"]) == set(ClaimAnswer.__struct_fields__)


def test_the_closed_words_of_the_schemas_are_those_of_the_code_and_no_number_is_required():
    entry = schema_of("critique")["properties"]["references"]["items"]["properties"]
    typed = {f.name: f.type for f in fields(PageStance)}
    assert set(entry["says"]["enum"]) == set(get_args(PageSays))
    for slot in ("subject", "act", "stage", "place", "amount", "date"):
        assert set(entry[slot]["enum"]) == set(get_args(Slot)) == set(get_args(typed[slot]))
    assert set(entry["speaks_for"]["enum"]) == set(get_args(typed["speaks_for"]))
    assert set(schema_of("synthesize")["properties"]["risk_flags"]["items"]["enum"]) == SYNTHESIS_FLAGS
    assert "adjustment" in schema_of("synthesize")["properties"]
    assert "adjustment" not in schema_of("synthesize")["required"]


@pytest.mark.parametrize("name", FILLED)
def test_a_prompt_has_no_field_that_its_step_does_not_fill(name):
    assert set(re.findall(r"\{\{(\w+)\}\}", load_prompts()[name].text)) == FILLED[name]


def test_every_quote_that_the_critics_examples_give_stands_on_its_page():
    examples = load_prompts()["critique"].text.partition("Examples.")[2]
    shown = re.findall(r"[\"“]([^\"“”]+)[\"”]: \w+, quote [\"“]([^\"“”]+)[\"”]", examples)
    assert len(shown) >= 6 and any(q.isascii() for _, q in shown) and any(not q.isascii() for _, q in shown)
    assert [quote for page, quote in shown if not sentences_of(quote, page, "")] == []


COMPLETE = {
    "number": 1, "quote": "q", "says": "affirms", "speaks_for": "other", "cites": None,
    **dict.fromkeys(("subject", "act", "stage", "place", "amount", "date"), "agrees"),
}  # fmt: skip


@pytest.mark.security
@pytest.mark.parametrize("slot", [name for name in COMPLETE if name != "number"])
@pytest.mark.parametrize("value", ["left out", "yes", True])
def test_an_entry_that_lacks_a_slot_or_has_another_word_in_it_is_no_reading(slot: str, value: Any) -> None:
    if slot in {"quote", "cites"} and value == "yes":
        return
    entry = {k: v for k, v in COMPLETE.items() if k != slot} | ({} if value == "left out" else {slot: value})
    data = {"claims": [], "verdict": "supported", "references": [entry, COMPLETE | {"number": 2}]}
    said = critique_answer(ModelReply(data=data), load_prompts()["critique"])
    assert [r.number for r in said.references or ()] == [2]


def test_an_answer_in_the_form_of_an_older_prompt_is_no_reading_by_slots_and_one_by_its_own_prompt() -> None:
    entry = {"number": 1, "stance": "supports", "quote": "q", "same_subject": True, "same_event": True}
    reply = ModelReply(data={"claims": [], "verdict": "supported", "references": [entry]})
    assert critique_answer(reply, load_prompts()["critique"]).references == []
    older = critique_answer(reply, load_prompts(critique="3")["critique"]).references or []
    assert [r.page_stance().stance for r in older] == ["supports"]


def test_an_unrelated_page_parses_from_two_fields_support_is_never_presumed_and_other_stances_are_no_answer():
    bare = {"number": 3, "stance": "unrelated"}
    support, denial = [
        checked({"number": 1, "stance": stance, "quote": "the bank held its rate"}, ReferenceAnswer).page_stance()
        for stance in ("supports", "denies")
    ]
    assert checked(bare, ReferenceAnswer).page_stance() == PageStance(reference_number=3, stance="unrelated")
    assert not (support.same_subject or support.same_event)
    assert denial.same_subject and denial.same_event
    with pytest.raises(StepFailure, match="stance"):
        checked({"number": 1, "stance": "confirms"}, ReferenceAnswer)


def test_what_a_critic_writes_is_bounded_and_holds_no_links():
    bait = "held ![x](https://evil.example/p) its rate https://evil.example " + "x" * 2_000
    said = {"number": 1, "stance": "denies", "quote": bait, "reason": bait, "cites": bait}
    stance = checked(said, ReferenceAnswer).page_stance()
    assert stance.quote is not None and stance.cites is not None
    assert (len(stance.quote), len(stance.reason), len(stance.cites)) == (600, 200, 80)
    assert "evil.example" not in f"{stance.quote} {stance.reason} {stance.cites}"


def test_replies_of_older_prompts_still_parse():
    critique = {"claims": [], "verdict": "refuted", "contradictions": [], "timeliness": "fresh"}
    synthesis = {"adjustment": 0.1, "summary": "s", "action": "buy", "direction": "long", "strength": "low",
                 "timeframe": "short", "reason": "r"}  # fmt: skip
    assert (checked(critique, CritiqueAnswer).references, checked(critique, CritiqueAnswer).concerned) == (None, None)
    parsed = checked(synthesis, SynthesisAnswer)
    assert (parsed.adjustment, parsed.summary_zh, parsed.risk_flags) == (0.1, None, [])


def test_a_value_is_never_substituted_again_and_a_missing_field_is_an_error():
    prompt = replace(load_prompts()["triage"], text="{{a}} {{b}}")
    assert render(prompt, a="{{b}}", b="x") == "{{b}} x"
    with pytest.raises(LookupError, match="needs 'b'"):
        render(prompt, a="x")


def test_a_version_that_does_not_exist_names_the_file_to_add():
    with pytest.raises(ConfigError, match=r"triage\.v99\.md"):
        load_prompts(triage="99")
