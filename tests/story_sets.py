"""Stories measured on labelled reports: how many cost a second deep analysis, and how many distinct stories are merged.

The real index is fed as by the journal: one report after another, in the order of their times, each with its labelled
claim.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from agents.core.case import open_case
from agents.evidence.compiled import compiled
from agents.evidence.news_claim import in_closed_words, with_asset
from agents.evidence.owners import is_partys_page
from agents.evidence.story import story_of
from agents.tables import load_tables
from agents.verification.find_story import to_join
from schemas import events as ev
from schemas.config import Tables
from schemas.effects import FindStory, StoryReply
from schemas.ids import text_hash
from schemas.news import News
from schemas.signals import StatedClaim, Verdict
from streams.intake.index_rows import RowAccess, index_rows
from streams.intake.story_index import StoryIndex
from tests.plain_graph import DRAFT, plain_signal

HOURS = 48.0
SETS = Path(__file__).parent / "data"


class LabelledTelling(msgspec.Struct, frozen=True, kw_only=True):
    """One labelled report. ``draft``: some of a draft's fields. ``like``: the story of which its own is a near miss.

    A set of raw texts has neither draft nor claim; its reader must read the texts first.
    """

    story: str
    source: str
    url: str
    language: str
    at: datetime
    text: str
    draft: dict[str, Any] = {}
    claim: StatedClaim = StatedClaim()
    like: str | None = None
    official: bool = False


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """Results for the reports of a set. ``paid_again``: reports beyond the first of their story that were analysed.

    ``found``: reports beyond the first whose story was found, analysed or not. ``joined``: (report's story, story of
    the case that it was joined to), for reports that ended in another story's signal.
    """

    reports: int
    stories: int
    found: int
    paid_again: tuple[LabelledTelling, ...]
    joined: tuple[tuple[str, str], ...]

    @property
    def paid_once(self) -> float:
        """Share of later reports that cost no second analysis, 0-1."""
        return 1 - len(self.paid_again) / (self.reports - self.stories)

    @property
    def recognised(self) -> float:
        """Share of later reports whose story was found, so that one signal of it remains, 0-1."""
        return self.found / (self.reports - self.stories)

    @property
    def merged(self) -> float:
        """Share of stories with a report that ended in another story's signal, 0-1."""
        return len({story for story, _ in self.joined}) / self.stories


class ReadJournal:
    """The journal of :class:`StoryIndex`, which the caller has read to its end."""

    def __init__(self) -> None:
        self.moved, self.rows = RowAccess(), index_rows()

    def subscribe(self, on_record: Any) -> None: ...

    async def read_to_the_ends(self) -> None: ...

    async def ends_of(self, topic: str) -> dict[int, tuple[int, int]]:
        return {}


def tellings_of(path: Path) -> list[LabelledTelling]:
    """Read a labelled set: one JSON object per line."""
    return [msgspec.json.decode(line, type=LabelledTelling) for line in path.read_bytes().splitlines()]


async def measured(tellings: list[LabelledTelling], verdict: Verdict = "likely") -> Found:
    """Find the story of each report, in the order of their times. ``verdict``: the result of every analysis."""
    index, tables = StoryIndex(ReadJournal(), dict, partitions=1, window_hours=HOURS), load_tables(demo=False)
    known = compiled(tables)
    of_case: dict[str, str] = {}
    paid: dict[str, list[LabelledTelling]] = {}
    joined: list[tuple[str, str]] = []
    found = 0
    for number, one in enumerate(sorted(tellings, key=lambda t: t.at)):
        case, at_ms = f"case-{number}", one.at.timestamp() * 1000
        opened, triaged = events_of(one, tables)
        index.take(case, opened, (0, 2 * number), at_ms)
        index.take(case, triaged, (0, 2 * number + 1), at_ms)
        reply = (await index.perform(FindStory(case_id=case, hours=HOURS))).reply
        assert isinstance(reply, StoryReply)
        found += one.story in of_case.values() and one.story in {of_case[t.case_id] for t in reply.tellings}
        of_case[case] = one.story
        own_page = one.official and is_partys_page(one.url, known)
        first = None if triaged.story is None or own_page else to_join(triaged.story, one.text, reply.tellings, known)
        if first is None:
            paid.setdefault(one.story, []).append(one)
            index.take(case, ev.StoryChecked(route="deep"), (0, 0), at_ms)
            index.take(case, judged(opened, verdict), (0, 0), at_ms)
            continue
        dropped = ev.CaseDropped(reason="same_story", detail="", duplicate_of=first.case_id)
        index.take(case, dropped, (0, 0), at_ms)
        if of_case[first.case_id] != one.story:
            joined.append((one.story, of_case[first.case_id]))
    return Found(
        reports=len(tellings),
        stories=len({t.story for t in tellings}),
        found=found,
        paid_again=tuple(t for all_ in paid.values() for t in all_[1:]),
        joined=tuple(joined),
    )


def judged(opened: ev.EventReceived, verdict: Verdict) -> ev.SignalSynthesized:
    case = open_case(opened, case_id="", event_id="", run_id="", at=opened.news.published_at, config=None)
    return ev.SignalSynthesized(signal=replace(plain_signal(case), verdict=verdict), path="deep")


def events_of(one: LabelledTelling, tables: Tables) -> tuple[ev.EventReceived, ev.CaseTriaged]:
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
