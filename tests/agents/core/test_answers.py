"""The claim in triage's reply: cleaned part by part; only its closed lists can make the reply invalid."""

from __future__ import annotations

import math

import pytest

from agents.core.answers import DraftAnswer, answer
from agents.core.step import StepFailure
from schemas.signals import ClaimAmount, StatedClaim

CLAIM = {
    "subject": "Binance",
    "predicate": "lists",
    "object": "",
    "amount": {"value": 914_000_000, "unit": "日元"},
    "asset": "PEPE",
    "venue": "Binance",
    "modality": "planned",
    "attribution": "named",
}


def stated(judged, **parts):
    claim = answer(judged(claim=CLAIM | parts), DraftAnswer).claim
    assert claim is not None
    return claim.stated()


def test_a_whole_claim_is_read_as_it_is_and_a_reply_of_the_prompts_before_has_none(judged):
    amount = ClaimAmount(value=914_000_000, unit="日元")
    assert stated(judged) == StatedClaim(**{**CLAIM, "amount": amount})
    assert answer(judged(), DraftAnswer).claim is None
    assert answer(judged(claim=None), DraftAnswer).claim is None
    assert stated(judged, amount={"value": "1,400,000", "unit": None}).amount == ClaimAmount(value=1_400_000.0)


def test_an_amount_that_is_no_number_is_left_out(judged):
    figures = ({"value": None, "unit": "USD"}, {"value": math.nan, "unit": "USD"}, {"value": "1e999"})
    for amount in (None, "much", [], {}, *figures, 10**400):
        assert stated(judged, amount=amount).amount is None, str(amount)[:24]


@pytest.mark.parametrize("part", ["subject", "object", "asset", "venue"])
def test_parts_are_one_bounded_line_without_links(judged, part):
    long = "Kra\u200bken\n[see](https://x.example/a) https://x.example/b [7] " + "x" * 5_000
    said = getattr(stated(judged, **{part: long}), part)
    assert said.startswith("Kraken see x") and len(said) <= 160 and "http" not in said
    assert getattr(stated(judged, **{part: ["no", "text"]}), part) == ""


@pytest.mark.parametrize(
    "parts", [{"modality": "certain"}, {"modality": None}, {"attribution": "someone"}, {"modality": ...}], ids=str
)
def test_a_word_outside_a_closed_list_or_none_is_invalid_output(judged, parts):
    said = {k: v for k, v in (CLAIM | parts).items() if v is not ...}
    with pytest.raises(StepFailure, match=next(iter(parts))) as stop:
        answer(judged(claim=said), DraftAnswer)
    assert stop.value.failure.kind == "invalid_output"
