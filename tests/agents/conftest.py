"""What the specifications of the steps share: a deep configuration, a draft, and the events that lead to each step."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from agents.core.answers import SlotsAnswer
from agents.planning.critic_reading import by_slots
from agents.prompts import load_prompts
from agents.tables import load_tables
from infra.offline.scripted.critic import in_slots
from schemas.config import Snapshot
from schemas.effects import Failure, FunctionCall, ModelReply, SearchReply
from schemas.events import CaseTriaged, ContextGathered, ProviderOutcome, SearchCompleted, SubTask, ToolPlanned
from schemas.evidence import Findings, PageStance, SearchReference
from schemas.signals import Draft
from tests import builders
from tests.specification import START

TELLINGS = (
    "Poly Network was exploited on Tuesday; trackers count more than $600M that left its contracts on three chains.",
    "An attacker abused a contract call to drain Poly Network. Losses pass 600 million dollars, analysts of the house say.",
    "The cross-chain protocol Poly Network confirmed an exploit and asked exchanges to freeze what was stolen from users.",
)
"""Told in different words, so that the rules do not take one for a copy of another."""
NEWS = "Poly Network exploited, more than $600M moved from three chains"


@pytest.fixture(scope="session")
def deep() -> Snapshot:
    return Snapshot(
        deep_analysis_tools_enabled=True,
        phase1_rollout_percentage=1.0,
        prompts=load_prompts(),
        tables=load_tables(demo=True),
    )


@pytest.fixture
def draft() -> Draft:
    return builders.draft(summary=NEWS, entity="Poly Network")


@pytest.fixture
def triaged(draft: Draft) -> Callable[..., CaseTriaged]:
    def make(route: str = "deep", **changes: Any) -> CaseTriaged:
        return CaseTriaged(draft=replace(draft, **changes), route=route, gate_reason="", rollout_bucket=0.0)

    return make


@pytest.fixture
def no_memory() -> ContextGathered:
    return ContextGathered(entries=(), memory="no_match")


@pytest.fixture
def planned() -> Callable[..., ToolPlanned]:
    def make(*tools: str | SubTask, keywords: str = "Poly Network exploit", round: int = 1) -> ToolPlanned:
        names = tools or ("search:offline",)
        tasks = tuple(t if isinstance(t, SubTask) else SubTask(tool=t, query=keywords, claim=NEWS) for t in names)
        return ToolPlanned(
            round=round,
            tools=("search",),
            search_keywords=keywords,
            keywords_from="model",
            decided_by="force_search",
            reason="",
            tasks=tasks,
            route="search",
        )

    return make


def reference(n: int) -> SearchReference:
    """Return the ``n``-th page of :func:`findings`."""
    return builders.reference(
        n, TELLINGS[(n - 1) % 3], title=f"Report {n}", url=f"https://house{n}.example/a", domain=f"house{n}.example",
        source_tool="offline", published_at=START, carries=True, independent=True, stance="unrelated",
    )  # fmt: skip


@pytest.fixture
def findings() -> Callable[..., Findings]:
    def make(references: int = 1, **changes: Any) -> Findings:
        return builders.findings(*map(reference, range(1, references + 1)), **changes)

    return make


def read(number: int, stance: str = "supports", **more: Any) -> dict[str, Any]:
    """Return a critic's entry for a reference of :func:`findings`, with a quote that is on its page. ``more``: its fields, or slots."""
    told: dict[str, Any] = {
        "number": number,
        "quote": TELLINGS[(number - 1) % 3][:60],
        "reason": "it says so",
        "stance": stance,
        "same_subject": True,
        "same_event": True,
        "amount": "agrees",
        "speaks_for": "other",
        "cites": None,
    }
    told |= {k: v for k, v in more.items() if k in told}
    return in_slots(told) | {k: v for k, v in more.items() if k not in told}


def stances(*numbers: int, stance: str = "supports", **more: Any) -> tuple[PageStance, ...]:
    """Return a critic's checked reading of these references."""
    entries = ((n, msgspec.convert(read(n, stance, **more), SlotsAnswer)) for n in numbers)
    return tuple(by_slots(e.page_stance(), reference(n), START) for n, e in entries)


@pytest.fixture
def searched(findings: Callable[..., Findings]) -> Callable[..., SearchCompleted]:
    def make(
        route: str = "critique", references: int = 3, failure: Failure | None = None, **changes: Any
    ) -> SearchCompleted:
        answered = (ProviderOutcome(provider="offline", query="q", hits=references, failure=failure),)
        return SearchCompleted(round=1, findings=findings(references, **changes), outcomes=answered, route=route)

    return make


@pytest.fixture
def found() -> Callable[..., SearchReply]:
    def make(*hosts: str, provider: str = "offline") -> SearchReply:
        results = tuple(
            builders.search_result(
                f"https://{host}/poly", TELLINGS[len(host) % 3] + f" Read on at {host}.", domain=host,
                title=f"{host.partition('.')[0]}: Poly Network exploited", provider=provider,
                published_at=START - timedelta(hours=2),
            )
            for host in hosts
        )  # fmt: skip
        return SearchReply(provider=provider, query="Poly Network exploit", results=results)

    return make


@pytest.fixture
def judged() -> Callable[..., ModelReply]:
    def make(**changes: Any) -> ModelReply:
        data = {
            "summary": NEWS,
            "event_type": "hack",
            "asset": "ETH",
            "asset_name": "Ethereum",
            "entity": "Poly Network",
            "action": "sell",
            "direction": "short",
            "confidence": 0.8,
            "strength": "high",
            "timeframe": "short",
            "risk_flags": [],
            "notes": "a named protocol",
            "spam": False,
        }
        return ModelReply(data=data | changes)

    return make


@pytest.fixture
def decided() -> Callable[..., ModelReply]:
    def make(*tools: str, keywords: str = "Poly Network exploit official statement", tasks: Any = None) -> ModelReply:
        args = {"tools": list(tools), "search_keywords": keywords, "reason": "because"}
        args |= {} if tasks is None else {"tasks": tasks}
        return ModelReply(function_calls=(FunctionCall(name="decide_next_tools", args=args),))

    return make
