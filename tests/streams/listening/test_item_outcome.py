"""What becomes of an item: by its date, by what is remembered of it, and by when we last looked."""

from __future__ import annotations

import random
from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace

from infra.listeners.items import Entry, Item, item_of
from infra.listeners.source import Source
from schemas.news import decode_news
from streams.listening.item_outcome import (
    MAX_EDITS,
    Outcome,
    Poll,
    decide_outcome,
    encoded,
    limit_items,
    news_of,
    remembered,
    seen_item_of,
)
from streams.listening.memory import Memory
from tests.infra.fakes.sources import NOON, STORY

SOURCE = Source(id="wire", kind="feed", url="https://x.example", language="en", group="owner")
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
LOOK = Poll(at=NOON, previous=NOON - MINUTE, max_age=15 * MINUTE, kept=30 * DAY)
FIRST = replace(LOOK, previous=None)
AFTER_OUTAGE = replace(LOOK, previous=NOON - 3 * HOUR)
BACKFILL = replace(FIRST, backfill=DAY)


def item(title: str = "Exchange lists ZK", text: str = STORY, at: datetime | None = NOON) -> Item:
    made = item_of(Entry(guid="g", title=title, text=text, published=at and at.isoformat()), SOURCE)
    assert made is not None
    return made


@pytest.mark.parametrize(
    ("age", "look", "outcome"),
    [
        (MINUTE, LOOK, "new"), (MINUTE, FIRST, "new"), (-HOUR, LOOK, "new"),
        (HOUR, FIRST, "recorded"), (HOUR, AFTER_OUTAGE, "late"), (HOUR, LOOK, "late"), (40 * DAY, AFTER_OUTAGE, "recorded"),
        (HOUR, BACKFILL, "backfilled"), (MINUTE, BACKFILL, "new"), (2 * DAY, BACKFILL, "recorded"),
        (None, LOOK, "new"), (None, FIRST, "recorded"), (None, AFTER_OUTAGE, "recorded"), (None, BACKFILL, "recorded"),
    ],
)  # fmt: skip
def test_an_item_that_is_not_known_goes_by_its_age_and_an_undated_one_by_our_own_sight(
    age: timedelta | None, look: Poll, outcome: Outcome
) -> None:
    assert decide_outcome(item(at=None if age is None else NOON - age), None, look, is_known_text=False) == outcome


def test_a_known_item_is_news_again_only_when_its_title_or_much_of_its_text_changed_and_three_times_at_most() -> None:
    seen = remembered("wire", item(), "new", None)
    rendered = item(text=STORY.replace("which two firms", "which  two firms"))
    assert decide_outcome(rendered, seen, LOOK, is_known_text=False) == "repeat"
    assert decide_outcome(item(text=STORY * 2 + "More."), seen, LOOK, is_known_text=False) == "repeat"
    edited = item(
        text=STORY.replace("go on as usual after an audit of its reserves", "are halted since its bridge was attacked")
    )
    assert decide_outcome(edited, seen, LOOK, is_known_text=False) == "edit"
    for number in range(MAX_EDITS + 1):
        said: Outcome = "edit" if number < MAX_EDITS else "repeat"
        assert decide_outcome(item(f"Title {number}"), seen, LOOK, is_known_text=False) == said
        if said == "edit":
            seen = remembered("wire", item(f"Title {number}"), said, seen)


def test_a_day_of_renderings_is_no_edit() -> None:
    rng, long = random.Random(3), STORY + " ".join(f"word{n}" for n in range(160))
    seen = remembered("wire", item(text=long), "new", None)
    for minute in range(0, 24 * 60, 5):
        text = f"{long} {rng.randrange(99)} comments. {rng.randrange(9)} min read".replace(
            " ", "  " if minute % 2 else " "
        )
        assert (
            decide_outcome(
                item("EXCHANGE lists ZK" if minute % 3 else "Exchange lists ZK!", text), seen, LOOK, is_known_text=False
            )
            == "repeat"
        )


def test_an_item_is_forgotten_when_its_source_has_not_shown_it_for_35_days() -> None:
    memory = Memory()
    for name in ("here", "gone"):
        memory.put(replace(remembered("wire", item(name), "new", None), external_id=name))
    for left in memory.left("wire", ["here"], NOON):
        memory.put(left)
    assert memory.left("wire", ["here"], NOON) == [] == memory.forgotten("wire", NOON + 34 * DAY)
    (old,) = memory.forgotten("wire", NOON + 36 * DAY)
    memory.forget(old)
    assert (old.external_id, list(memory.items["wire"])) == ("gone", ["here"])
    assert memory.knows_text("wire", item("here").text_hash) and not memory.knows_text("wire", item("gone").text_hash)


def test_a_text_that_is_known_under_another_id_is_no_news() -> None:
    assert decide_outcome(item(), None, LOOK, is_known_text=True) == "repeat"


def test_what_was_only_recorded_becomes_news_when_the_past_is_asked_for_and_else_never() -> None:
    old = item(at=NOON - HOUR)
    seen = remembered("wire", old, "recorded", None)
    assert (
        decide_outcome(replace(old, title_hash="other", text_hash="other"), seen, LOOK, is_known_text=False) == "repeat"
    )
    assert decide_outcome(old, seen, BACKFILL, is_known_text=True) == "backfilled"


def test_a_flood_is_held_back_and_what_just_came_out_goes_first() -> None:
    found = [(item(f"{one} {n}"), one) for n in range(3) for one in ("late", "repeat", "new")]
    kept, waiting = limit_items(found, 4)  # type: ignore[arg-type]
    assert waiting == 2
    assert [one for _, one in kept].count("new") == 3 and [one for _, one in kept].count("repeat") == 3


@pytest.mark.parametrize("outcome", ["new", "late", "backfilled", "edit"])
@pytest.mark.parametrize("at", [NOON - HOUR, NOON + HOUR, None])
def test_a_record_is_news_that_intake_takes_and_says_of_itself_what_is_remembered(
    outcome: Outcome, at: datetime | None
) -> None:
    told = item(at=at)
    news = decode_news(encoded(news_of(SOURCE, told, outcome, LOOK)), now=NOON)
    assert news.published_at == (NOON - HOUR if at == NOON - HOUR else NOON)
    assert news.received_at == (None if outcome == "backfilled" else NOON)
    assert news.extra.get("flags") == ([outcome] if outcome in ("late", "backfilled") else None)
    assert news.extra.get("dated") == (at.isoformat() if at == NOON + HOUR else None)
    assert news.extra["previous_look_at"] == (NOON - MINUTE).isoformat(timespec="milliseconds")
    assert (news.identity, news.text_hash, news.extra["title"]) == (told.external_id, told.text_hash, told.title)
    assert seen_item_of(news, None, told.sketch) == replace(remembered("wire", told, outcome, None), edits=0)
