"""Stories by example, samples of cases, and the period of a survey."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from evaluation.replay.journal import FileSource, Stories, draw_sample, survey
from evaluation.replay.log_file import read_log_file
from schemas.events import CaseDropped, CaseTriaged, Event, EventReceived, RetractionFound
from schemas.ids import text_hash
from schemas.news import News
from schemas.signals import Story
from tests.evaluation.runs.run_samples import changed_log
from tests.plain_graph import DRAFT

AT = datetime(2024, 6, 1, tzinfo=UTC)


def test_a_sample_keeps_the_order_and_does_not_depend_on_it() -> None:
    cases = [f"case {n}" for n in range(50)]
    some = draw_sample(cases, 5)
    assert len(some) == 5
    assert some == [c for c in cases if c in some]
    assert set(draw_sample(cases[::-1], 5)) == set(some)
    assert draw_sample(cases, 0) == draw_sample(cases, 99) == cases


def test_cases_of_one_act_or_of_one_denial_are_one_story_for_a_week() -> None:
    stories, hack = Stories(), told("bybit", "hacked", "ETH", amount=400_000.0)
    for case_id, event in (
        ("hack", opened("Bybit was hacked", 0)),
        ("hack", hack),
        ("reworded", opened("Cold wallet of an exchange drained of 400k ether, its CEO says", 30)),
        ("reworded", hack),
        ("copy", opened("Bybit was hacked", 2)),
        ("copy", CaseDropped(reason="duplicate", detail="", duplicate_of="hack")),
        ("denial", opened("Bybit denies", 3)),
        ("denial", RetractionFound(signal_id="s", of_case="copy", kind="retracted", reason="")),
        ("edit", opened("Corrected: another sum", 4, edits="denial")),
        ("asset", opened("Bybit was hacked", 5)),
        ("asset", told("bybit", "hacked", "BTC", amount=400_000.0)),
        ("act", opened("Bybit sues", 5)),
        ("act", told("bybit", "sues", "ETH")),
        ("later", opened("Bybit was hacked", 24 * 8)),
        ("later", hack),
        ("late edit", opened("Corrected again", 24 * 8, edits="hack")),
    ):
        stories.add(case_id, event)
    of = {c: stories.of(c) for c in ("hack", "reworded", "copy", "denial", "edit")}
    assert set(of.values()) == {"hack"}
    assert [stories.of(c) for c in ("asset", "act", "later", "late edit")] == ["asset", "act", "later", "late edit"]


def test_thirty_coins_in_one_template_are_thirty_stories() -> None:
    stories = Stories()
    for n in range(30):
        coin = f"C{n}"
        stories.add(coin, opened(f"Binance Will List Some Token of a Name ({coin}) with Seed Tag Applied", n * 24 * 10))
        stories.add(coin, told("binance", "lists", coin, to_many=True))
    assert len({stories.of(f"C{n}") for n in range(30)}) == 30


def told(subject: str, predicate: str, asset: str, **more: Any) -> Event:
    story = Story(subject=subject, predicate=predicate, side="claimed", assets=(asset.lower(),), unit="coins", **more)
    draft = replace(DRAFT, asset=asset)
    return CaseTriaged(draft=draft, route="story", gate_reason="", rollout_bucket=0.0, story=story)


def opened(text: str, hour: int, *, edits: str | None = None) -> Event:
    news = News(source="test", text=text, published_at=AT + timedelta(hours=hour))
    return EventReceived(news=news, config_hash="", text_hash=text_hash(text), language="en", edits=edits)


async def test_a_period_is_one_of_publication_since_a_backfill_is_received_within_minutes() -> None:
    every = await survey(FileSource(read_log_file()))
    assert (every.first, every.last) == (datetime(2020, 7, 15, 14, tzinfo=UTC), every.last) and every.last
    assert every.last.year == 2025, "the sample's news is of six years, and was received within a second"
    year = await survey(
        FileSource(read_log_file()), since=datetime(2023, 1, 1, tzinfo=UTC), until=datetime(2024, 1, 1, tzinfo=UTC)
    )
    assert 0 < len(year.ended) < len(every.ended)

    def ahead(_case: str, event: Any) -> Any:
        """News that claims to be of tomorrow counts from its receipt."""
        if isinstance(event, EventReceived):
            news = replace(event.news, published_at=datetime(2030, 1, 1, tzinfo=UTC), received_at=AT)
            return replace(event, news=news)
        return event

    found = await survey(changed_log(read_log_file(), ahead), since=AT, until=AT + timedelta(seconds=1))
    assert len(found.ended) == len(every.ended)
