from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from msgspec.structs import replace

from infra.bots.definition import BotDefinition
from schemas import envelope as wire
from schemas.budget import Reserved
from schemas.ids import RESEARCH_RUN, event_id, uuid5
from schemas.research_events import BriefWritten, InvestigationAsked
from schemas.topics import Topics, partition_of
from streams.bots.book import Book
from streams.bots.messages import Outbox, next_notes
from streams.bots.reports import IN_A_ROW, Briefs, OutageWatch, Report, low_budget
from streams.budget.rule import BudgetState
from tests.builders import NOW, limits_of, signal
from tests.schemas.research_samples import INVESTIGATION
from tests.streams.memory_log import MemoryLog

ASKED = InvestigationAsked(question="q", subject="DeepSeek", as_of=NOW, config_hash="aa" * 16, language="en")
BRIEF = next(one for one in INVESTIGATION if isinstance(one, BriefWritten))
TOPIC = Topics().research


def write(log: MemoryLog, name: str, brief: BriefWritten, at: datetime = NOW) -> str:
    case = uuid5("investigation", name)
    opened = uuid5("opened", case)
    ended = event_id(RESEARCH_RUN, case, opened)
    for event, id, cause in ((ASKED, opened, None), (brief, ended, opened), (brief, uuid5("forged"), opened)):
        _, value, headers = wire.encode(event, id=id, case_id=case, causation_id=cause, run_id=RESEARCH_RUN, time=at)
        ms = int(at.timestamp() * 1000)
        log.append(TOPIC, partition_of(case, 2), value=value, key=case.encode(), headers=headers, timestamp=ms)
    return case


async def test_a_brief_is_reported_once_by_its_counts_and_first_sentences_and_nothing_new_is_no_report() -> None:
    log = MemoryLog({TOPIC: 2})
    write(log, "old", BRIEF, datetime(2026, 2, 1, tzinfo=UTC))
    async with Briefs.following(log, Topics(), "en", NOW) as briefs:
        watched = write(log, "watch", BRIEF)
        write(log, "nothing new", replace(BRIEF, new_since=()))
        first = write(log, "first", replace(BRIEF, previous=None, new_since=()))
        found = {one.id: one for one in await briefs.new()}
    assert set(found) == {watched, first}
    assert found[watched].text == (
        "BRIEF: DeepSeek · 0 established, 1 disputed, 0 unsettled · 1 new\nThe authority denies it."
    )
    assert found[first].line.endswith("unsettled") and found[first].path == f"investigations/{first}"


def test_a_budget_that_is_almost_used_is_told_once_a_month_and_once_a_day() -> None:
    def lines(left_usd: str, units: int, at: datetime = NOW, language: Any = "en") -> list[str]:
        state = BudgetState()
        state.fold(0, int(NOW.timestamp() * 1000), limits_of("30", units=50))
        asked = Reserved(
            id="a", effect="search", provider="p", usd=Decimal(30) - Decimal(left_usd), units=units, for_triage=False,
            case_id="c", head_id="h", claim_kinds=(), group="",
        )  # fmt: skip
        state.fold(1, int(NOW.timestamp() * 1000), asked)
        return [f"{one.id} {one.line}" for one in low_budget(state, at, language)]

    assert lines("3", 45) == []
    assert lines("2.9", 46) == [
        "budget:2026-03 MONTHLY BUDGET ALMOST USED: 2.90 USD of 30 USD left",
        "budget:2026-03-01 TODAY'S TOOL CALLS ALMOST USED: 4 of 50 left",
    ]
    assert lines("2.9", 46, NOW.replace(day=2), "zh") == ["budget:2026-03 本月预算即将用完：共 30 美元，剩余 2.90 美元"]
    assert lines("2.9", 46, NOW.replace(month=4)) == []


def test_a_verification_that_fails_is_told_once_an_hour_and_one_check_ends_it() -> None:
    def told(*reasons: str | None, language: Any = "en") -> list[str]:
        watch = OutageWatch(language)
        made = [
            signal(signal_id=f"s{n}", unchecked_reason=why, decided_at=NOW + timedelta(minutes=n))
            for n, why in enumerate(reasons)
        ]
        for one in reversed(made):  # as partitions may come
            watch.take(one)
            watch.take(replace(one, revision=2, stage="retracted", decided_at=NOW + timedelta(days=1)))
        return [f"{one.id} {one.line}" for one in watch.new()]

    failed = ["search_failed:timeout"] * (IN_A_ROW - 1)
    assert told(*failed) == told(*failed, None, "degraded:refused") == told(*failed, "degraded:refused", None) == []
    said = (
        "outage:2026-03-01T12 VERIFICATION FAILS: none of the last 5 signals could be checked · search failed: timeout"
    )
    assert told("degraded:refused", *failed) == told(None, *failed, "search_failed:timeout") == [said]
    assert told(*failed, "budget", "gate", "search_failed:timeout") == [said], "the budget and the gate are no outage"
    assert told(*failed, "degraded:refused", language="zh") == [
        "outage:2026-03-01T12 核查持续失败：最近 5 条信号均未核查 · 深入核查失败：被拒绝"
    ]


def test_a_report_waits_behind_signals_is_sent_once_and_is_never_part_of_a_summary() -> None:
    bot, book = BotDefinition(name="desk", kind="notify", channel="telegram"), Book("desk")
    outbox = Outbox(bot, book, "telegram")
    for n in range(2):
        report = Report(id=f"budget:{n}", kind="budget", line="low", text="low", path="operations", at=NOW)
        assert outbox.report(report, NOW) == outbox.report(report, NOW) == []
    [note] = next_notes(outbox.due(NOW), room=0)
    assert outbox.message([note], "http://us/").link == "http://us/operations"
    outbox.settle(note, "delivered", NOW)
    assert [one.planned.signal_id for one in outbox.due(NOW)] == ["budget:1"]
