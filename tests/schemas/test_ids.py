"""Identifiers: the same wherever and whenever they are computed. A change here would orphan every id in every log."""

from __future__ import annotations

import itertools
import unicodedata
import uuid

from hypothesis import given
from hypothesis import strategies as st

from schemas import ids
from schemas.topics import partition_of


def test_golden_values_hold_for_ever() -> None:
    assert ids.uuid5("a", "b") == "6bd09974-9928-53a8-b071-471a23cd88d2"
    assert ids.text_hash("Bybit 冷钱包遭攻击") == "bb960da0b6e609ff560e74e6ab6368c9"
    assert ids.case_id("wire", "1", ids.text_hash("x")) == "00ebcc9c-8387-5938-a333-07bce6669120"
    assert ids.event_id("live", "c", "h") == "0c9c3933-6e82-5c48-9f4b-bf86fe1509b5"
    assert ids.effect_id("live", "c", "h", "r") == "88a589c4-1140-58ac-92a6-4f178d32f19a"
    assert ids.signal_id("live", "c") == "cfeac68c-64eb-561a-a9e8-daed6b0efc4c"
    assert ids.uuid5("opening", "live", "c") == "a340d298-4e9a-5b44-ab2c-ad36b19a73a4"


@given(st.lists(st.text(st.characters(codec="utf-8")), max_size=4))
def test_every_id_is_the_version_5_uuid_of_the_standard_library(parts: list[str]) -> None:
    assert ids.uuid5(*parts) == str(uuid.uuid5(ids.NAMESPACE, "\x1f".join(parts)))


def test_another_run_case_head_or_request_has_another_id() -> None:
    made = {ids.event_id(*p) for p in itertools.product(("live", "r1"), ("a", "b"), ("h", "i"))}
    made |= {ids.effect_id(*p) for p in itertools.product(("live", "r1"), ("a", "b"), ("h", "i"), ("x", "y"))}
    assert len(made) == 8 + 16


def test_layout_width_case_and_form_do_not_change_a_text() -> None:
    rows = [
        ("Exchange lists TOKEN", "  exchange   lists\ntoken!! "),
        ("ＥＸＣＨＡＮＧＥ　lists", "exchange lists"),
        ("café", "cafe\u0301"),
        ("zero\u200bwidth", "zerowidth"),
        ("“quoted” — text…", '"quoted" - text...'),
        ("某交易所，上线", "某交易所 上线"),
        ("STRASSE", "straße"),
    ]
    assert [(one, other) for one, other in rows if ids.text_hash(one) != ids.text_hash(other)] == []


def test_what_changes_the_meaning_changes_the_hash() -> None:
    rows = [
        ("up 5 percent", "up 6 percent"),
        ("BTC +5", "BTC 5 USDT"),
        ("!!!", "???"),
        ("", " "),
        ("上线", "下线"),
        ("a b", "ab"),
    ]
    assert [(one, other) for one, other in rows if ids.text_hash(one) == ids.text_hash(other)] == []


@given(st.text())
def test_any_text_has_a_hash_and_normalising_twice_changes_nothing(text: str) -> None:
    assert len(ids.text_hash(text)) == 32
    once = ids.normalise_text(text)
    assert once == ids.normalise_text(f"  {text}\n")


@given(st.dictionaries(st.text(max_size=5), st.integers() | st.none() | st.lists(st.booleans()), max_size=6))
def test_a_content_hash_does_not_depend_on_the_order_of_keys(value: dict[str, object]) -> None:
    assert ids.content_hash(value) == ids.content_hash(dict(reversed(value.items())))


def test_cases_spread_over_the_partitions_and_stay_where_they_are() -> None:
    cases = [ids.case_id("s", str(n), "t") for n in range(4000)]
    counts = [sum(partition_of(c, 4) == p for c in cases) for p in range(4)]
    assert min(counts) > 850
    assert partition_of("00ebcc9c-8387-5938-a333-07bce6669120", 4) == 0x00EBCC9C % 4


@given(st.text(alphabet=st.characters(max_codepoint=127)))
def test_plain_ascii_is_normalised_as_any_other_text(text: str) -> None:
    # The short way for ASCII must agree with the categories that the long way asks for.
    kept = (c if unicodedata.category(c)[0] in "LNS" else " " for c in text.casefold())
    assert ids.normalise_text(text) == " ".join("".join(kept).split())
