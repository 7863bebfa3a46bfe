"""Prompts: files that parse, schemas that fit the code, and fields that are filled once."""

from __future__ import annotations

from typing import get_args

import pytest
from msgspec.structs import replace

from agents.core.answers import CritiqueAnswer, DraftAnswer, ExpandAnswer, SynthesisAnswer
from agents.prompts import all_prompts, load_prompts, render
from schemas.errors import ConfigError
from schemas.signals import EventType


def test_every_prompt_has_its_own_hash_and_the_steps_prompts_are_there():
    prompts = load_prompts()
    assert len({p.hash for p in all_prompts()}) == len(all_prompts())
    assert {"triage", "plan", "expand", "critique", "synthesize", "single_pass", "single_pass_final"} == set(prompts)


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("triage", DraftAnswer),
        ("single_pass_final", DraftAnswer),
        ("critique", CritiqueAnswer),
        ("synthesize", SynthesisAnswer),
        ("expand", ExpandAnswer),
    ],
)
def test_a_schema_asks_for_the_fields_that_the_code_reads(name, answer):
    schema = load_prompts()[name].schema
    assert schema is not None and set(schema["properties"]) == set(answer.__struct_fields__)


def test_the_schema_knows_every_event_type():
    schema = load_prompts()["triage"].schema
    assert schema is not None and tuple(schema["properties"]["event_type"]["enum"]) == get_args(EventType)


def test_a_value_is_never_substituted_again_and_a_missing_field_is_an_error():
    prompt = replace(load_prompts()["triage"], text="{{a}} {{b}}")
    assert render(prompt, a="{{b}}", b="x") == "{{b}} x"
    with pytest.raises(LookupError, match="needs 'b'"):
        render(prompt, a="x")


def test_a_version_that_does_not_exist_names_the_file_to_add():
    with pytest.raises(ConfigError, match=r"triage\.v99\.md"):
        load_prompts(triage="99")
