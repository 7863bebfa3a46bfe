"""``./run eval --model``: runs the judged cases through the graph, with the file's evidence in place of searches.

The file gives the results of triage and plan (the preliminary signal and the search), so the graph begins at its
search. From there its own steps run, and the configured models critique and synthesise; without a key a scripted server
does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import datetime
from decimal import Decimal
from typing import Any

import structlog
from msgspec.structs import replace

from agents.core.registry import Registry
from agents.evidence.policy import Conclusion
from agents.graphs import verification
from agents.judging import judge_case
from agents.planning.rounds import findings_so_far
from agents.prompts import every_task, load_prompts
from infra.models import live_models
from infra.offline.scripted.ports import scripted_models
from infra.offline.scripted.server import ScriptedServer
from infra.ports import Port, Ports
from infra.settings import Settings
from lab.eval.evaluate import (
    CaseResult,
    Evaluation,
    JudgedCase,
    ModelUse,
    draft_of,
    news_of,
    results_of,
    totals,
)
from lab.eval.judging import compared, evaluate
from newsproof.app.model_options import tuned_prompts
from schemas import effects as fx
from schemas import ids
from schemas.calls import Call
from schemas.config import Snapshot
from schemas.events import CaseTriaged, ContextGathered, Event, EventReceived, SubTask, ToolPlanned
from schemas.news import language_of
from streams.effects.host import EffectsHost
from streams.replay import Miss, Need, RecordedEvent, Recording, Replay, ReplayResult
from tests.empty_journal import EmptyJournal

log = structlog.get_logger(__name__)

AT_ONCE = 4
"""Concurrent cases."""
TRIES = 3
GIVEN = "given"
"""Name of the search provider that stands for the file's evidence."""


async def evaluate_by_model(
    cases: Iterable[tuple[int, JudgedCase]], snapshot: Snapshot, settings: Settings
) -> Evaluation:
    """Judge every case with the configured models, or with a scripted server without a key; include the rules' totals.

    Raises:
        ConfigError: live mode lacks a key.
    """
    listed = list(cases)
    async with _models(settings) as (mode, ports):
        pinned = replace(
            snapshot,
            provider_mode=mode,
            deep_analysis_tools_enabled=True,
            tool_expand_enabled=False,
            search_providers=(GIVEN,),
            synthesis_choice="model",
            prompts=tuned_prompts(settings, load_prompts()),
        )
        judge = _Judge(EffectsHost(ports), pinned)
        places = asyncio.Semaphore(AT_ONCE)
        results = await asyncio.gather(*(judge.case(line, case, places) for line, case in listed))
    rules = evaluate(listed, snapshot)
    return replace(totals(tuple(results)), model=judge.use(mode, rules))


@asynccontextmanager
async def _models(settings: Settings) -> AsyncIterator[tuple[Any, Ports]]:
    server = None
    fallbacks: dict[str, tuple[Port, ...]] = {}
    if settings.mode == "live":
        models, fallbacks = live_models(settings, every_task())
    elif settings.scripted_model_url:
        models = scripted_models(settings)
    else:
        server = ScriptedServer()
        await server.start()
        models = scripted_models(settings.model_copy(update={"scripted_model_url": server.url}))
    ports = Ports(
        models=models, fallbacks=fallbacks, search={}, **dict.fromkeys(("recall", "earlier", "story"), EmptyJournal())
    )
    try:
        yield ("live" if settings.mode == "live" else "simulated"), ports
    finally:
        await ports.close()
        if server is not None:
            await server.stop()


class _Judge:
    def __init__(self, host: EffectsHost, snapshot: Snapshot) -> None:
        self._host, self._snapshot = host, snapshot
        self._registry: Registry = verification()
        self._calls: list[Call] = []
        self._failed: list[str] = []

    async def case(self, line: int, case: JudgedCase, places: asyncio.Semaphore) -> CaseResult:
        async with places:
            end = await self._driven(case)
        signal = end.signal
        if signal is None:
            self._failed.append(str(case.id or f"line {line}"))
        judged = judge_case(end.case)
        findings = judged.findings or findings_so_far(end.case)
        unjudged = Conclusion(confidence=case.preliminary.confidence, action="observe", adjustments=(), risk_flags=())
        return compared(line, case, findings, judged.judgement, signal or unjudged)

    def use(self, mode: str, rules: Evaluation) -> ModelUse:
        """Return the models, calls and cost so far."""
        costs = [c.cost_usd for c in self._calls]
        return ModelUse(
            mode=mode,
            models=tuple(sorted({c.model for c in self._calls if c.model})),
            calls=len(self._calls),
            input_tokens=sum(c.usage_input_tokens for c in self._calls),
            output_tokens=sum(c.usage_output_tokens for c in self._calls),
            cost_usd=None if any(c is None for c in costs) else sum((c for c in costs if c is not None), Decimal(0)),
            failed=tuple(self._failed),
            rules=rules.fields,
            rules_all_right=rules.all_right,
        )

    async def _driven(self, case: JudgedCase) -> ReplayResult:
        asking = Replay(_recording(case), self._snapshot, self._registry, changed=frozenset()).run()
        evidence = [fx.SearchReply(provider=GIVEN, query="", results=results_of(case))]
        try:
            need = next(asking)
            while True:
                need = asking.send(await self._answer(need, evidence))
        except StopIteration as stop:
            end: ReplayResult = stop.value
            return end

    async def _answer(self, need: Need, evidence: list[fx.SearchReply]) -> tuple[Call, ...] | Miss:
        match need.effect:
            case fx.Search():
                reply: fx.Reply = evidence.pop() if evidence else fx.SearchReply(provider=GIVEN, query="", results=())
            case fx.FindConcerned():
                reply = fx.ConcernedReply(claims=())
            case fx.CallModel():
                return await self._ask(need)
            case _:
                return Miss(f"the file has no answer to {type(need.effect).__name__}")
        return (_free(need, reply),)

    async def _ask(self, need: Need) -> tuple[Call, ...] | Miss:
        for attempt in range(1, TRIES + 1):
            calls = await self._host.perform(
                need.effect, case_id=need.case.case_id, head_id=need.case.head_id, attempt=attempt
            )
            self._calls += calls
            last = calls[-1].reply
            if not isinstance(last, fx.Failure):
                return calls
            log.warning("a model did not respond", case=need.case.case_id, step=need.step, error=last.message)
            if not last.retryable:
                break
            await asyncio.sleep(last.retry_after_s or 2.0**attempt)
        # The runtime's degrading after an outage says nothing about the judging of the evidence.
        return Miss(f"{need.step} was not answered")


def _free(need: Need, reply: fx.Reply) -> Call:
    kind: Any = "search" if isinstance(reply, fx.SearchReply) else "earlier_claims"
    return Call(
        kind=kind, provider=GIVEN, mode="offline", request_hash=need.request_hash, reply=reply, latency_ms=0.0,
        replied_at=need.case.head_at, cost_usd=Decimal(0),
    )  # fmt: skip


def _recording(case: JudgedCase) -> Recording:
    """Return the case as of its search: the file's input, and a plan to search once."""
    news, draft = news_of(case), draft_of(case)
    events: tuple[Event, ...] = (
        EventReceived(news=news, config_hash="", text_hash=news.text_hash, language=language_of(news)),
        CaseTriaged(draft=draft, route="deep", gate_reason="given", rollout_bucket=0.0),
        ContextGathered(entries=(), memory="no_match"),
        ToolPlanned(
            round=1,
            tools=("search",),
            search_keywords=news.text[:100],
            keywords_from="query_builder",
            decided_by="force_search",
            reason="the evidence is given",
            tasks=(SubTask(tool=f"search:{GIVEN}", query=news.text[:100], claim=news.text[:100]),),
            route="search",
        ),
    )
    records: list[RecordedEvent] = []
    at: datetime = news.as_of
    head = ""
    for event in events:
        head = ids.event_id(ids.LIVE_RUN, news.case_id, head)
        records.append(RecordedEvent(head, at, event))
    return Recording(case_id=news.case_id, run_id=ids.LIVE_RUN, records=records)
