"""What a reference keeps when a later round judges all pages again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from agents.core.case import Case, fold, open_case
from agents.planning.rounds import rejudge_findings
from agents.tables import load_tables
from schemas.config import Snapshot
from schemas.events import CaseTriaged, EventReceived, SearchCompleted
from schemas.evidence import Findings, Page, SearchReference, SearchResult
from schemas.news import News
from tests import builders

SNAPSHOT = Snapshot(tables=load_tables(demo=False))
NOW = datetime(2024, 6, 3, 10, tzinfo=UTC)
FIRST, SECOND = NOW + timedelta(seconds=2), NOW + timedelta(seconds=9)
FILLER = "The market was quiet on this day and volumes stayed low across all of the larger venues. "
DENIAL = "Kraken was not hacked on Monday, its chief said, and no user lost anything."


def hit(url: str, text: str, score: float = 0.9, title: str = "Kraken") -> SearchResult:
    return builders.search_result(url, text, title=title, score=score, published_at=NOW - timedelta(hours=1))


LONG = hit("https://www.coindesk.com/kraken", FILLER * 8 + DENIAL)
OTHER = hit(
    "https://decrypt.co/kraken", "Kraken lost $85 million in a hack on Monday, researchers told this publication."
)


def triaged(entity: str = "Kraken") -> Case:
    news = News(source="s", text=f"{entity} loses $85 million in a hack", published_at=NOW)
    received = EventReceived(news=news, config_hash="", text_hash="", language="en")
    case = open_case(received, case_id="c", event_id="e1", run_id="live", at=NOW, config=SNAPSHOT)
    draft = builders.draft(asset="UNKNOWN", asset_name="", action="observe", entity=entity)
    return fold(case, CaseTriaged(draft=draft, route="deep", gate_reason="", rollout_bucket=0.0), event_id="e2", at=NOW)


def searched(case: Case, findings: Findings) -> Case:
    number = len(case.searches) + 1
    event = SearchCompleted(round=number, outcomes=(), findings=findings, route="critique")
    return fold(case, event, event_id=f"s{number}", at=NOW)


def of(findings: Findings, url: str) -> SearchReference:
    return next(r for r in findings.references if r.url == url)


def judgement_of(of: SearchReference) -> tuple[object, ...]:
    return of.stance, of.carries, of.passage, of.timestamp, of.owner, of.own_page


def test_a_later_round_keeps_what_was_read_of_a_page_whose_reference_holds_only_its_head() -> None:
    first = rejudge_findings(triaged(), query="q1", answers=[[LONG]], searched_at=FIRST)
    known = of(first, LONG.url)
    assert DENIAL not in known.snippet and DENIAL in known.passage
    assert (known.stance, known.carries, known.timestamp) == ("denies", True, FIRST)
    again = rejudge_findings(searched(triaged(), first), query="q2", answers=[[OTHER]], searched_at=SECOND)
    assert judgement_of(of(again, LONG.url)) == judgement_of(known)
    assert of(again, OTHER.url).timestamp == SECOND
    assert again.denied
    assert rejudge_findings(searched(triaged(), again), query="q3", searched_at=SECOND).references == tuple(
        replace(r, query="q3") for r in again.references
    )


def test_a_page_that_was_opened_is_read_again_and_keeps_the_time_of_its_search() -> None:
    head = hit(LONG.url, FILLER)
    first = rejudge_findings(triaged(), query="q", answers=[[head]], searched_at=FIRST)
    assert of(first, LONG.url).stance == "unrelated"
    page = Page(url=LONG.url, title="Kraken", text=FILLER * 30 + DENIAL)
    opened = rejudge_findings(searched(triaged(), first), query="q", opened=[page], searched_at=SECOND)
    known = of(opened, LONG.url)
    assert (known.stance, known.timestamp, DENIAL in known.passage) == ("denies", FIRST, True)
    later = rejudge_findings(searched(triaged(), opened), query="q2", answers=[[OTHER]], searched_at=SECOND)
    assert judgement_of(of(later, LONG.url)) == judgement_of(known)


def test_a_page_without_a_date_has_the_one_that_it_names_when_it_is_opened() -> None:
    bare = replace(hit("https://www.kraken.com/incident", FILLER), published_at=None)
    first = rejudge_findings(triaged(), query="q", answers=[[bare]], searched_at=FIRST)
    assert of(first, bare.url).published_at is None
    page = Page(url=bare.url, title="", text=FILLER, published_at=NOW - timedelta(days=40))
    opened = rejudge_findings(searched(triaged(), first), query="q", opened=[page])
    assert of(opened, bare.url).published_at == page.published_at
    later = rejudge_findings(searched(triaged(), opened), query="q2", answers=[[OTHER]], searched_at=SECOND)
    assert of(later, bare.url).published_at == page.published_at
    # What a provider dated keeps that date, and a page from after the case is no evidence.
    dated = rejudge_findings(triaged(), query="q", answers=[[LONG]])
    newer = Page(url=LONG.url, title="", text=DENIAL, published_at=NOW - timedelta(days=40))
    assert (
        of(rejudge_findings(searched(triaged(), dated), query="q", opened=[newer]), LONG.url).published_at
        == LONG.published_at
    )
    after = rejudge_findings(searched(triaged(), first), query="q", opened=[replace(page, published_at=SECOND)])
    assert (after.references, after.risk_flags) == ((), ("future_evidence",))


def test_a_page_that_another_round_finds_again_keeps_what_was_read_of_its_whole_text() -> None:
    first = rejudge_findings(triaged(), query="q", answers=[[LONG]], searched_at=FIRST)
    better = hit(LONG.url, FILLER, score=0.99)
    again = rejudge_findings(searched(triaged(), first), query="q2", answers=[[better]], searched_at=SECOND)
    assert judgement_of(of(again, LONG.url)) == judgement_of(of(first, LONG.url))


def test_the_claimants_own_page_stays_its_own_in_later_rounds() -> None:
    own = hit(
        "https://medium.com/@zephyr/notes",
        "Zephyr lost $85 million in a hack on Monday, and more will be told tomorrow.",
    )
    report = hit(
        "https://decrypt.co/z", "Zephyr was hacked, and $85 million left its pools within four blocks on Monday."
    )
    case = triaged("Zephyr")
    first = rejudge_findings(case, query="q", answers=[[own]], searched_at=FIRST)
    again = rejudge_findings(searched(case, first), query="q2", answers=[[report]], searched_at=SECOND)
    assert (of(first, own.url).own_page, first.independent_sources) == (True, 0)
    assert (of(again, report.url).own_page, again.independent_sources) == (False, 1)
    assert judgement_of(of(again, own.url)) == judgement_of(of(first, own.url))


def test_a_reference_from_before_its_reading_was_kept_is_read_again() -> None:
    first = rejudge_findings(triaged(), query="q", answers=[[OTHER]], searched_at=FIRST)
    bare = replace(first.references[0], stance="denies", carries=None, passage="")
    old = searched(triaged(), replace(first, references=(bare,)))
    again = of(rejudge_findings(old, query="q2", searched_at=SECOND), OTHER.url)
    assert (again.stance, again.carries, again.passage) == ("supports", True, OTHER.snippet)
