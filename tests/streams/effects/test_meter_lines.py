"""The line that each step of a search round logs at DEBUG: what was sought, why, and what it added to the evidence."""

from __future__ import annotations

import logging

import pytest
import structlog
from msgspec.structs import replace
from structlog.testing import CapturingLogger

from agents.core.inquiry import Inquiry
from agents.core.step_turn import successor_id
from agents.graphs import verification
from schemas import events as ev
from schemas.evidence import Findings, Sentiment
from streams.effects import meter as meter_module
from streams.effects.meter import Meter
from tests.agents.conftest import reference
from tests.builders import draft, signal
from tests.specification import START, TICK, case_after, opened

TRIAGED = ev.CaseTriaged(draft=draft(), route="deep", gate_reason="", rollout_bucket=0.0)
RECALLED = ev.ContextGathered(entries=(), memory="no_match")


def planned(number: int, keywords: str) -> ev.ToolPlanned:
    tasks = (ev.SubTask(tool="search:tavily", query=keywords, claim="c"),)
    return ev.ToolPlanned(
        round=number, tools=("search",), search_keywords=keywords, keywords_from="model", decided_by="model",
        reason="the amount is open", tasks=tasks, route="search",
    )  # fmt: skip


def searched(number: int, *pages: int) -> ev.SearchCompleted:
    found = Findings(
        keyword="", references=tuple(replace(reference(n), official=n == 1) for n in pages), dropped=(),
        independent_sources=len(pages), multi_source=False, official_confirmed=False, denied=False, conflict=False,
        stale=False, sentiment=Sentiment(panic=0.0, neutral=1.0, optimistic=0.0), source_count=len(pages), confidence=0.5, triggered=True,
    )  # fmt: skip
    return ev.SearchCompleted(round=number, findings=found, outcomes=(), route="expand")


def test_a_round_logs_its_keywords_its_reason_and_what_it_added_to_the_evidence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A logger of its own: other tests of this process may have set another level.
    lines, at_debug = CapturingLogger(), structlog.make_filtering_bound_logger(logging.DEBUG)
    monkeypatch.setattr(meter_module, "log", structlog.wrap_logger(lines, processors=[], wrapper_class=at_debug))
    events: tuple[ev.Event, ...] = (
        planned(1, "bridge hack"),
        searched(1, 1),
        ev.KeywordsExpanded(round=1, keywords=("frozen funds", "610 million"), reason="named there", route="plan"),
        planned(2, "frozen funds"),
        searched(2, 1, 2, 3),
        ev.SignalSynthesized(signal=signal(preliminary_confidence=0.75, confidence=0.6), path="deep"),
    )
    meter, before = Meter(verification()), [opened("Bridge hacked"), TRIAGED, RECALLED]
    for event in events:
        case = case_after(*before)
        assert isinstance(case, Inquiry)
        meter.appending(case, event, successor_id(case, event), START + 60 * TICK)
        before.append(event)
        meter.folded(case_after(*before))
    told = [{key: line.kwargs[key] for key in line.kwargs.keys() & FIELDS} for line in lines.calls]
    assert {line.method_name for line in lines.calls} == {"debug"}
    assert told == [
        {"round": 1, "keywords": "bridge hack", "reason": "the amount is open"},
        {"round": 1, "references": 1, "new": 1, "independent": 1, "official": 1},
        {"round": 1, "keywords": "frozen funds, 610 million", "reason": "named there"},
        {"round": 2, "keywords": "frozen funds", "reason": "the amount is open"},
        {"round": 2, "references": 3, "new": 2, "independent": 3, "official": 1},
        {"confidence": 0.6, "delta": -0.15},
    ]


FIELDS = {"round", "keywords", "reason", "references", "new", "independent", "official", "confidence", "delta"}
