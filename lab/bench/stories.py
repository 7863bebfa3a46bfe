"""Stories, measured on labelled tellings: how many cost a second deep analysis, and how many distinct stories are merged.

The real index is fed as the journal would feed it: one telling after the other, in the order of their times, each with
the claim that is labelled for it.
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from agents.evidence.stated import in_closed_words, with_asset
from agents.evidence.story import story_of
from agents.tables import load_tables
from lab.bench.graph import DRAFT
from schemas import events as ev
from schemas.config import Tables
from schemas.effects import FindStory, StoryReply
from schemas.ids import text_hash
from schemas.news import News
from schemas.signals import StatedClaim
from streams.intake.story_index import StoryIndex

HOURS = 48.0


class LabelledTelling(msgspec.Struct, frozen=True, kw_only=True):
    """One labelled telling. ``draft`` holds some of a draft's fields, ``like`` the story that its own is a near miss of."""

    story: str
    source: str
    url: str
    language: str
    at: datetime
    text: str
    draft: dict[str, Any]
    claim: StatedClaim
    like: str | None = None
    official: bool = False


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the tellings of a set. ``paid_again``: tellings beyond the first of their story that were analysed.

    ``joined``: (telling's story, story of the case that it was taken for), of those that were taken for another story.
    """

    tellings: int
    stories: int
    paid_again: tuple[LabelledTelling, ...]
    joined: tuple[tuple[str, str], ...]

    @property
    def paid_once(self) -> float:
        """The share of the re-tellings that cost no second analysis, 0-1."""
        return 1 - len(self.paid_again) / (self.tellings - self.stories)

    @property
    def merged(self) -> float:
        """The share of the stories of which a telling was taken for another story, 0-1."""
        return len({story for story, _ in self.joined}) / self.stories


class _Journal:
    """The journal of :class:`StoryIndex`, which the caller has read to its end."""

    moved = asyncio.Condition()

    def subscribe(self, on_record: Any) -> None: ...

    async def read_to_the_ends(self) -> None: ...

    async def ends_of(self, topic: str) -> dict[int, tuple[int, int]]:
        return {}


def tellings_of(path: Path) -> list[LabelledTelling]:
    """Read a labelled set: a JSON object a line."""
    return [msgspec.json.decode(line, type=LabelledTelling) for line in path.read_bytes().splitlines()]


async def measured(tellings: list[LabelledTelling]) -> Found:
    """Find the story of each telling, in the order of their times."""
    index, tables = StoryIndex(_Journal(), dict, partitions=1, window_hours=HOURS), load_tables(demo=False)
    of_case: dict[str, str] = {}
    paid: dict[str, list[LabelledTelling]] = {}
    joined: list[tuple[str, str]] = []
    for number, one in enumerate(sorted(tellings, key=lambda t: t.at)):
        case, at_ms = f"case-{number}", one.at.timestamp() * 1000
        of_case[case] = one.story
        opened, triaged = _events(one, tables)
        index.take(case, opened, (0, 2 * number), at_ms)
        index.take(case, triaged, (0, 2 * number + 1), at_ms)
        reply = (await index.perform(FindStory(case_id=case, hours=HOURS))).reply
        assert isinstance(reply, StoryReply)
        if not reply.tellings:
            paid.setdefault(one.story, []).append(one)
            index.take(case, ev.StoryChecked(route="deep"), (0, 0), at_ms)
            continue
        first = reply.tellings[0].case_id
        dropped = ev.CaseDropped(reason="same_story", detail="", duplicate_of=first)
        index.take(case, dropped, (0, 0), at_ms)
        if of_case[first] != one.story:
            joined.append((one.story, of_case[first]))
    return Found(
        tellings=len(tellings),
        stories=len({t.story for t in tellings}),
        paid_again=tuple(t for all_ in paid.values() for t in all_[1:]),
        joined=tuple(joined),
    )


def _events(one: LabelledTelling, tables: Tables) -> tuple[ev.EventReceived, ev.CaseTriaged]:
    claim = in_closed_words(one.claim, one.draft["event_type"])
    draft = with_asset(replace(DRAFT, asset_name="", **{"entity": None} | one.draft), claim, tables)
    news = News(source=one.source, text=one.text, url=one.url, published_at=one.at, language=one.language)
    return (
        ev.EventReceived(news=news, config_hash="", text_hash=text_hash(one.text), language=one.language),
        ev.CaseTriaged(
            draft=draft,
            route="story",
            then="deep",
            gate_reason="",
            rollout_bucket=0.0,
            claim=claim,
            story=story_of(draft, claim, tables, one.text),
        ),
    )
