"""Raw news: nothing is believed, every refusal has a stable reason and a text that says what to change."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.errors import ContractError
from schemas.ids import text_hash
from schemas.news import (
    BACKFILLED_AFTER,
    MAX_DEPTH,
    MAX_FUTURE,
    MAX_NEWS_BYTES,
    MAX_RECORD_BYTES,
    News,
    decode_news,
    is_live,
    knowable_at,
    language_of,
)

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
PLAIN = {"source": "wire", "external_id": "1", "text": "Exchange lists TOKEN", "published_at": "2026-06-01T11:00:00Z"}


def raw(**changes: Any) -> bytes:
    return json.dumps({k: v for k, v in {**PLAIN, **changes}.items() if v is not ...}).encode()


REFUSED: list[tuple[str, bytes | None, str]] = [
    ("null", None, "empty"),
    ("nothing", b"", "empty"),
    ("white space", b" \n\t", "empty"),
    ("empty text", raw(text=""), "empty"),
    ("blank text", raw(text=" \u3000\n"), "empty"),
    ("long text", raw(text="x" * (MAX_NEWS_BYTES + 1)), "too_large"),
    ("long text in wide characters", raw(text="新" * (MAX_NEWS_BYTES // 3 + 1)), "too_large"),
    ("long record", raw(extra={"x": "y" * MAX_RECORD_BYTES}), "too_large"),
    ("utf-16", json.dumps(PLAIN).encode("utf-16"), "not_utf8"),
    ("latin-1", '{"text":"café"}'.encode("latin-1"), "not_utf8"),
    ("half a record", raw()[:-5], "not_json"),
    ("two records", raw() + raw(), "not_json"),
    ("plain text", b"Exchange lists TOKEN", "not_json"),
    ("NaN", b'{"source": NaN}', "not_json"),
    ("half a surrogate", b'{"source":"s","text":"\\ud800","published_at":"2026-01-01T00:00:00Z"}', "not_json"),
    ("a list", b"[1]", "wrong_type"),
    ("a string", b'"news"', "wrong_type"),
    ("a number for a source", raw(source=1), "wrong_type"),
    ("a list for a text", raw(text=["x"]), "wrong_type"),
    ("a number for a time", raw(published_at=1767225600), "wrong_type"),
    ("no time at all", raw(published_at="yesterday"), "wrong_type"),
    ("a number for an id", raw(external_id=7), "wrong_type"),
    ("a string for extra", raw(extra="x"), "wrong_type"),
    ("no source", raw(source=...), "missing_field"),
    ("no text", raw(text=...), "missing_field"),
    ("no time", raw(published_at=...), "missing_field"),
    ("a null text", raw(text=None), "missing_field"),
    ("10,000 deep", b'{"extra":' + b'{"a":' * 10_000 + b"1" + b"}" * 10_001, "too_deep"),
    ("10,000 deep and never closed", b"[" * 10_000, "too_deep"),
    ("one too deep", raw(extra=json.loads('{"a":' * MAX_DEPTH + "1" + "}" * MAX_DEPTH)), "too_deep"),
    ("from the future", raw(published_at=(NOW + MAX_FUTURE + timedelta(seconds=1)).isoformat()), "future_date"),
    ("received in the future", raw(received_at="2027-01-01T00:00:00Z"), "future_date"),
    ("before Bitcoin", raw(published_at="2001-01-01T00:00:00Z"), "bad_value"),
    ("no time zone", raw(published_at="2026-06-01T11:00:00"), "bad_value"),
    ("out of range", raw(published_at="0001-01-01T00:00:00+14:00"), "bad_value"),
    ("a blank source", raw(source="  "), "bad_value"),
    ("a long source", raw(source="s" * 257), "bad_value"),
    ("an empty id", raw(external_id=""), "bad_value"),
    ("a long id", raw(external_id="i" * 513), "bad_value"),
]


@pytest.mark.parametrize(("record", "reason"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED])
def test_bad_input_is_refused_with_its_reason_and_a_text_for_a_person(record: bytes | None, reason: str) -> None:
    with pytest.raises(ContractError) as caught:
        decode_news(record, now=NOW)
    assert caught.value.reason == reason
    assert 15 < len(str(caught.value)) < 400


@given(st.binary(max_size=300))
def test_no_bytes_crash_the_reader(record: bytes) -> None:
    with pytest.raises(ContractError):
        decode_news(record, now=NOW)


@settings(max_examples=200)
@given(st.dictionaries(st.sampled_from([*News.__struct_fields__, "other"]), st.none() | st.booleans() | st.text(max_size=5)
                       | st.integers() | st.floats(allow_nan=False) | st.lists(st.integers(), max_size=2)))  # fmt: skip
def test_no_json_object_crashes_the_reader(fields: dict[str, Any]) -> None:
    try:
        news = decode_news(json.dumps({**PLAIN, **fields}).encode(), now=NOW)
    except ContractError:
        return
    assert news.text.strip() and news.source.strip()


def test_nulls_are_as_good_as_absent_times_become_utc_and_unknown_fields_are_kept() -> None:
    news = decode_news(raw(url=None, received_at=None, published_at="2026-06-01T19:00:00+08:00"), now=NOW)
    assert news == decode_news(raw(), now=NOW)
    assert news.published_at == datetime(2026, 6, 1, 11, tzinfo=UTC)
    news = decode_news(raw(channel={"id": 7}, unknown="a field of that name"), now=NOW)
    assert news.unknown == {"channel": {"id": 7}, "unknown": "a field of that name"}


def test_the_largest_text_the_deepest_nesting_and_the_latest_date_are_taken_and_brackets_are_no_nesting() -> None:
    deepest = json.loads('{"a":' * (MAX_DEPTH - 1) + "1" + "}" * (MAX_DEPTH - 1))
    latest = (NOW + MAX_FUTURE).isoformat()
    news = decode_news(raw(text="x" * MAX_NEWS_BYTES, extra=deepest, published_at=latest), now=NOW)
    assert len(news.text) == MAX_NEWS_BYTES and news.published_at == NOW + MAX_FUTURE
    text = "[{" * 500 + '\\"[' * 100
    assert decode_news(raw(text=text), now=NOW).text == text


def test_the_identity_is_the_external_id_or_the_text() -> None:
    named, nameless = decode_news(raw(), now=NOW), decode_news(raw(external_id=...), now=NOW)
    assert named.key == b"wire:1"
    assert nameless.key == f"wire:{text_hash(PLAIN['text'])}".encode()
    assert named.case_id != nameless.case_id
    assert decode_news(raw(text="Exchange delists TOKEN"), now=NOW).case_id != named.case_id


def test_the_language_is_the_listeners_word_or_the_script() -> None:
    expected = {
        ("交易所上线", None): "zh", ("Exchange lists", None): "en", ("BTC 突破 新高 了", None): "zh", ("123 !!", None): "other",
             ("Биржа", None): "other", ("Exchange lists", "zh-CN"): "zh", ("x", "EN"): "en", ("x", "ru"): "other"
    }  # fmt: skip
    assert {
        (text, given_language): language_of(decode_news(raw(text=text, language=given_language), now=NOW))
        for text, given_language in expected
    } == expected


OPENED = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def news(received_ago: timedelta | None, **fields: Any) -> News:
    received = None if received_ago is None else OPENED - received_ago
    return News(source="s", text="t", published_at=OPENED - 12 * HOUR, received_at=received, **fields)


@pytest.mark.parametrize(
    ("item", "live", "knowable"),
    [
        (news(timedelta(seconds=2)), True, OPENED),
        (news(-timedelta(seconds=5)), True, OPENED + timedelta(seconds=5)),  # a listener whose clock is ahead
        (news(2 * HOUR), True, OPENED),  # the intake was down: nobody could act while it was
        (news(BACKFILLED_AFTER), True, OPENED),
        (
            news(BACKFILLED_AFTER + timedelta(milliseconds=1)),
            False,
            OPENED - BACKFILLED_AFTER - timedelta(milliseconds=1),
        ),
        (news(None), False, OPENED - 12 * HOUR),
        (news(HOUR, extra={"flags": ["late"]}), False, OPENED - HOUR),
        (news(HOUR, extra={"flags": ["new", "backfilled"]}), False, OPENED - HOUR),
        (news(HOUR, extra={"flags": ["new"]}), True, OPENED),
        (news(HOUR, extra={"flags": "late"}), True, OPENED),  # not a list of words: somebody else's field
        (news(HOUR, extra={"flags": [{"late": 1}, None]}), True, OPENED),
    ],
)
def test_news_is_live_when_it_was_judged_as_it_came_in(item: News, live: bool, knowable: datetime) -> None:
    assert is_live(item, OPENED) is live
    assert knowable_at(item, OPENED) == knowable
