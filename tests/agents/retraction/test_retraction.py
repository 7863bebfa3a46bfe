"""A believed denial names the signals that it concerns, one event each, before its own; one that is not believed names none."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from infra.offline.model import OfflineModel
from infra.offline.search import OfflineSearch
from schemas import effects as fx
from schemas.effects import ConcernedReply, EarlierClaim, Failure, FindConcerned, ModelReply
from schemas.events import CaseTriaged, ConcernedSignal, EvidenceCritiqued, RetractionFound, SignalSynthesized
from schemas.ids import LIVE_RUN, signal_id
from tests.agents.conftest import read, stances
from tests.specification import case_after, given, opened, run_case

DENIAL = (
    "Walmart: the press release about a partnership with Litecoin is fake, the retailer has no relationship with LTC"
)
CLAIMS = (
    "Walmart announces major partnership with Litecoin, LTC payments from October 1, press release says",
    "沃尔玛宣布与莱特币达成重大合作,10 月 1 日起接受 LTC 支付",
)
OTHER = "Kroger announces partnership with Litecoin for payments at all stores"


def claim(text, number, entity="Walmart", language="en"):
    at = opened(DENIAL).news.published_at
    return EarlierClaim(
        case_id=f"c{number}",
        asset="LTC",
        event_type="partnership",
        language=language,
        text=text,
        as_of=at,
        entity=entity,
    )


EARLIER = ConcernedReply(
    claims=(claim(CLAIMS[0], 1), claim(CLAIMS[1], 2, language="zh"), claim(OTHER, 3, entity="Kroger"))
)


PAGES = (
    "Walmart said that it has no relationship with Litecoin and that the press release about payments is fake.",
    "The release on Litecoin is not authentic, a spokesman of Walmart told reporters on Monday afternoon.",
    "Shares of Litecoin fell back after Walmart called the announcement of a partnership false.",
)


def said(verdict="supported", pages=3, **more):
    one = {"claim": DENIAL, "verdict": verdict, "reliability": 0.9, "reference_numbers": [1], "reason": "r"}
    entries = [read(n, quote=PAGES[n - 1]) for n in range(1, pages + 1)]
    return ModelReply(
        data={"references": entries, "claims": [one], "verdict": verdict, "contradictions": [], "timeliness": "fresh",
              "concerned": [1, 2]} | more
    )  # fmt: skip


@pytest.fixture
def denial(deep, triaged, no_memory, planned, searched, findings):
    def make(**marks):
        told = triaged(asset="LTC", entity="Walmart", event_type="partnership", summary=DENIAL)
        refs = tuple(
            replace(r, snippet=text, passage=text, **marks)
            for r, text in zip(findings(3).references, PAGES, strict=True)
        )
        found = replace(searched(), findings=replace(findings(3), references=refs))
        return given(opened(DENIAL), told, no_memory, planned(), found, config=deep)

    return make


def signals(event):
    return [(c.of_case, c.kind, c.language) for c in event.concerned]


def test_a_believed_denial_asks_the_journal_first_and_then_the_critic_with_numbered_claims(denial):
    asked = denial().asked
    assert [type(e) for e in asked] == [FindConcerned]
    assert "LTC" in asked[0].assets and "walmart" in asked[0].names
    event = denial().told(EARLIER, said()).event
    assert signals(event) == [("c1", "retracted", "en"), ("c2", "retracted", "zh")]
    assert event.concerned[0].signal_id == signal_id(LIVE_RUN, "c1") and event.route == "retract"


def test_a_critic_chooses_among_the_candidates_only_and_one_of_an_older_prompt_leaves_it_to_the_rules(denial):
    assert signals(denial().told(EARLIER, said(concerned=[2, 3, 9, -1, 0])).event) == [("c2", "retracted", "zh")]
    none = denial().told(EARLIER, said(concerned=[])).event
    assert none.concerned == () and none.route == "synthesize"
    reply = said()
    reply.data.pop("concerned")
    assert len(denial().told(EARLIER, reply).event.concerned) == 2


@pytest.mark.parametrize("verdict", ["refuted", "conflicting"])
def test_a_denial_that_is_refuted_itself_retracts_nothing(denial, verdict):
    event = denial().told(EARLIER, said(verdict)).event
    assert event.concerned == () and event.route == "synthesize"


@pytest.mark.parametrize(
    "reply",
    [
        said(references=[read(n, stance="unrelated") for n in (1, 2, 3)]),
        said(references=[read(n, quote="Walmart never said anything of the kind") for n in (1, 2, 3)]),
        said(references=[read(n, "denies", quote=PAGES[n - 1]) for n in (1, 2, 3)]),
        said(references=None),
    ],
    ids=["no page says so", "no quote is there", "the pages deny the denial", "nobody read the pages"],
)
def test_a_denial_without_quoted_support_retracts_nothing_though_the_critic_is_shown_the_candidates(denial, reply):
    spec = denial()
    again = () if reply.data["references"] is None or reply.data["references"][0]["says"] != "affirms" else (reply,)
    event = spec.told(EARLIER, reply, *again).event
    assert event.concerned == () and event.route == "synthesize"


def test_one_established_page_that_is_quoted_is_enough_and_one_of_nobody_is_not(denial):
    one = said(references=[read(1, quote=PAGES[0])])
    assert len(denial().told(EARLIER, one).event.concerned) == 2
    assert denial(source_credibility="unknown").told(EARLIER, one).event.concerned == ()


def test_a_journal_that_cannot_be_read_in_time_retracts_nothing_and_stops_nothing(denial):
    away = Failure(kind="timeout", message="later", retryable=True)
    assert denial().told(away, said()).event.route == "synthesize"


def test_each_signal_gets_an_event_of_its_own_and_then_the_case_goes_on(deep, denial):
    concerned = tuple(
        ConcernedSignal(signal_id=f"s{n}", of_case=f"c{n}", kind=kind, language=language)
        for n, kind, language in ((1, "retracted", "zh"), (2, "superseded", "en"))
    )
    reading = tuple(replace(one, quote=PAGES[n]) for n, one in enumerate(stances(1, 2, 3)))
    critiqued = EvidenceCritiqued(claims=(), verdict="supported", stances=reading, concerned=concerned, route="retract")
    before = denial().case
    events = [before.received, before.triaged, before.context, *before.plans, *before.searches, critiqued]
    first = given(*events, config=deep).told().event
    assert (first.signal_id, first.of_case, first.kind, first.route) == ("s1", "c1", "retracted", "more")
    assert "否认" in first.reason and before.case_id in first.reason
    assert first.evidence and {e.stance for e in first.evidence} == {"denies"}
    second = given(*events, first, config=deep).told().event
    assert (second.signal_id, second.kind, second.route) == ("s2", "superseded", "synthesize")
    assert "corrected by case" in second.reason
    assert isinstance(case_after(*events, first, second, config=deep).head, RetractionFound)
    assert isinstance(given(*events, first, second, config=deep).asked, fx.CallModel)


MODEL, SEARCH = OfflineModel(), OfflineSearch()


SAMPLE = Path(__file__).parents[3] / "infra" / "offline" / "sample" / "history.jsonl"


@pytest.fixture(scope="module")
def told(deep) -> list[tuple[dict[str, Any], Any]]:
    """The rows of the sample with their runs, in order of time. The journal knows the claims of the cases before."""
    claims, runs = [], []

    def perform(effect):
        match effect:
            case fx.CallModel():
                return asyncio.run(MODEL.perform(effect)).reply
            case fx.Search():
                return asyncio.run(SEARCH.perform(effect)).reply
            case fx.FindEarlier():
                return fx.EarlierReply(first_case=None)
            case FindConcerned():
                return ConcernedReply(claims=tuple(claims))
            case _:
                return fx.RecallReply(entries=())

    rows = [json.loads(line) for line in SAMPLE.read_text("utf-8").splitlines()]
    for row in sorted(rows, key=lambda r: r["published_at"]):
        at = datetime.fromisoformat(row["published_at"])
        event = opened(row["text"], source="history", language=row["lang"], at=at, external_id=row["id"])
        run = run_case(event, perform, config=deep)
        assert isinstance(run.case.head, SignalSynthesized), row["id"]
        runs.append((row, run))
        draft = next(e.draft for e in run.events if isinstance(e, CaseTriaged))
        claims.append(
            EarlierClaim(
                case_id=run.case.case_id, asset=draft.asset, event_type=draft.event_type, language=row["lang"],
                text=row["text"], as_of=at, entity=draft.entity,
            )
        )  # fmt: skip
    return runs


def test_of_the_sample_exactly_the_two_denied_claims_are_retracted(told):
    ids = {run.case.case_id: row["id"] for row, run in told}
    found = [
        (row["id"], ids[e.of_case], e.kind) for row, run in told for e in run.events if isinstance(e, RetractionFound)
    ]
    assert found == [(row["id"], row["corrects"], "retracted") for row, _ in told if row.get("corrects")]
    assert [f[:2] for f in found] == [("h41", "h09"), ("h42", "h33")]


def test_false_news_ends_as_no_confident_buy_and_true_news_keeps_its_confidence(told):
    signals = [(row["truth"], row["id"], run.case.head.signal) for row, run in told]
    assert [i for t, i, s in signals if t == "false" and s.action == "buy" and s.confidence >= 0.6] == []
    true = [s for t, _, s in signals if t == "true"]
    assert sum(s.confidence >= 0.4 for s in true) >= 0.8 * len(true)
    assert any(s.action == "buy" and s.confidence >= 0.75 for s in true)
