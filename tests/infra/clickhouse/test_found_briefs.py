"""Briefs in the tables: the next investigation finds the newest that fits, and memory recalls what it found."""

from __future__ import annotations

from datetime import timedelta

import msgspec
from msgspec.structs import replace

from infra.clickhouse.client import ClickHouse
from infra.clickhouse.lookups import BriefLookup
from infra.clickhouse.memory import ClickHouseMemory
from schemas.effects import FindBrief, Recall
from schemas.events import BriefWritten
from schemas.ids import RESEARCH_RUN
from tests.infra.clickhouse.clickhouse_samples import NOW, fill, record
from tests.schemas.research_samples import INVESTIGATION

DAY = timedelta(days=1)


async def test_the_newest_brief_of_a_subject_that_looked_no_later_is_found_and_recalled_without_a_verdict(
    clickhouse: ClickHouse,
) -> None:
    brief = INVESTIGATION[-1]
    assert isinstance(brief, BriefWritten)
    told = {
        "old": replace(brief, as_of=NOW - 9 * DAY),
        "newer": replace(brief, as_of=NOW - 2 * DAY),
        "later": replace(brief, as_of=NOW + DAY),
        "chinese": replace(brief, as_of=NOW - DAY, language="zh"),
        "other": replace(brief, as_of=NOW - DAY, subject_key="kimi"),
    }
    await fill(
        clickhouse,
        [
            record(b, case_id=case, event_id=case, offset=n, run_id=RESEARCH_RUN, value=msgspec.json.encode(b))
            for n, (case, b) in enumerate(told.items())
        ],
    )
    port = BriefLookup(clickhouse)
    asked = FindBrief(subject="deepseek", language="en", as_of=NOW, exclude_case="")
    found = (await port.perform(asked)).reply.brief
    assert (found.investigation_id, found.claims[0].verdict) == ("newer", "refuted")
    assert found.claims[0].urls == found.urls == ("https://a.example/1",)
    assert (await port.perform(replace(asked, exclude_case="newer"))).reply.brief.investigation_id == "old"
    assert (await port.perform(replace(asked, investigation="other"))).reply.brief.investigation_id == "other"
    assert (await port.perform(replace(asked, subject="nobody"))).reply.brief is None

    recall = Recall(text="DeepSeek: The authority denies it.", asset="", as_of=NOW, limit=9, exclude_case="newer")
    entries = (await ClickHouseMemory(clickhouse).perform(recall)).reply.entries
    assert {e.case_id for e in entries} == {"old", "chinese", "other"}
    assert {(e.event_type, e.verdict, e.confidence) for e in entries} == {("investigation", None, 0.0)}
