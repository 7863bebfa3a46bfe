"""Stories by example, and samples of cases."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from evaluation.replay.journal import Stories, draw_sample
from schemas.events import CaseDropped, Event, EventReceived, RetractionFound
from schemas.ids import text_hash
from schemas.news import News

AT = datetime(2024, 6, 1, tzinfo=UTC)


def test_a_sample_keeps_the_order_and_does_not_depend_on_it() -> None:
    cases = [f"case {n}" for n in range(50)]
    some = draw_sample(cases, 5)
    assert len(some) == 5
    assert some == [c for c in cases if c in some]
    assert set(draw_sample(cases[::-1], 5)) == set(some)
    assert draw_sample(cases, 0) == draw_sample(cases, 99) == cases


def test_cases_of_one_text_or_of_one_denial_are_one_story() -> None:
    stories = Stories()
    for case_id, event in (
        ("hack", opened("Bybit was hacked, 400,000 ether stolen from a cold wallet on Friday, the exchange says", 0)),
        ("copy", opened("Bybit was hacked: 400,000 ether stolen from a cold wallet on Friday, the exchange said", 1)),
        ("same", opened("unlike anything", 2)),
        ("same", CaseDropped(reason="duplicate", detail="", duplicate_of="hack")),
        ("denial", opened("Bybit denies", 3)),
        ("denial", RetractionFound(signal_id="s", of_case="copy", kind="retracted", reason="")),
        ("edit", opened("Corrected: another sum", 4, edits="denial")),
        ("other", opened("The SEC approves a spot fund for ether", 5)),
        (
            "later",
            opened("Bybit was hacked, 400,000 ether stolen from a cold wallet on Friday, the exchange says", 24 * 40),
        ),
    ):
        stories.add(case_id, event)
    of = {c: stories.of(c) for c in ("hack", "copy", "same", "denial", "edit", "other", "later")}
    assert {of[c] for c in ("hack", "copy", "same", "denial", "edit")} == {"hack"}
    assert (of["other"], of["later"]) == ("other", "later")


def test_chinese_texts_are_compared_by_their_characters() -> None:
    stories = Stories()
    stories.add("a", opened("交易所遭黑客攻击, 冷钱包损失超过十四亿美元, 公司表示用户资产安全", 0))
    stories.add("b", opened("交易所遭黑客攻击, 冷钱包损失超过十四亿美元, 公司称用户资产安全", 1))
    stories.add("c", opened("美国证监会批准以太坊现货基金上市交易", 2))
    assert stories.of("b") == "a"
    assert stories.of("c") == "c"


def opened(text: str, hour: int, *, edits: str | None = None) -> Event:
    news = News(source="test", text=text, published_at=AT + timedelta(hours=hour))
    return EventReceived(news=news, config_hash="", text_hash=text_hash(text), language="en", edits=edits)
