"""The shipped log in the hands of a test: a model that is never asked twice for the same, and a run over it in memory."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import Any

import msgspec

from agents.graphs import verification
from agents.prompts import load_prompts
from evaluation.replay.candidates import ReplayBuilder
from evaluation.replay.journal import FileSource, Source, survey
from evaluation.replay.log_file import LogFile, Record, read_log_file
from evaluation.runs.backtest import Runner, RunResult
from evaluation.runs.performer import CostLimit, Performer
from evaluation.runs.plan import RunPlan
from evaluation.runs.run_tables import RunCaseRow
from evaluation.runs.topic import CallMade, CaseReplayed, RunProgress, RunTopic
from infra.offline.simulated import Simulated
from infra.ports import Answer, Free, Ports
from schemas import envelope as wire
from schemas.calls import ProviderMode
from schemas.config import Prompt
from schemas.effects import CallModel, FunctionCall, ModelReply
from schemas.ids import content_hash

COST = Decimal("0.01")


def prompt(name: str, *, version: str = "4", text: str = "Be strict.\n") -> Prompt:
    """The newest prompt of this name with other words before it."""
    now = load_prompts()[name]
    changed = msgspec.structs.replace(now, version=version, text=text + now.text, hash="")
    return msgspec.structs.replace(changed, hash=content_hash(changed))


class CountingModel(Free):
    """Answers every prompt by the same words, and counts by prompt. Costs 1 cent a call."""

    provider = "counting"
    mode: ProviderMode = "simulated"
    model = "counting-model"

    def __init__(self, *, keywords: str = "what nobody ever searched for", cost: Decimal | None = COST) -> None:
        self.asked: Counter[str] = Counter()
        self._keywords = keywords
        self._cost = cost

    def worst_case_usd(self, effect: Any) -> Decimal | None:
        return self._cost

    async def perform(self, effect: CallModel) -> Answer:
        self.asked[effect.prompt_name] += 1
        return Answer(reply=self._reply(effect), cost_usd=self._cost, model=self.model)

    def _reply(self, effect: CallModel) -> ModelReply:
        if effect.prompt_name == "plan":
            args = {"tools": ["search"], "search_keywords": self._keywords, "reason": "another idea"}
            return ModelReply(function_calls=(FunctionCall(name="decide_next_tools", args=args),))
        return ModelReply(
            data={
                "adjustment": 0.0,
                "summary": "The claim.",
                "action": "observe",
                "direction": "neutral",
                "strength": "low",
                "timeframe": "short",
                "reason": "Said anew.",
            }
        )

    async def close(self) -> None:
        """Nothing is open."""


def ports_of(model: Any) -> Ports:
    ours = Simulated()
    return Ports(models={"light": model, "heavy": model}, search={"simulated": ours}, recall=ours, earlier=ours)


class TopicInMemory(RunTopic):
    """Keeps what a run writes, as the topic would."""

    def __init__(self) -> None:
        self.held = RunProgress()
        self.written: list[Any] = []

    async def write(self, event: Any, *, key: str) -> None:
        event = msgspec.json.decode(msgspec.json.encode(event), type=type(event))
        self.written.append(event)
        if isinstance(event, CallMade):
            asked = (event.case_id, event.repeat, event.request_hash, event.occurrence)
            self.held.calls.setdefault(asked, event.calls)
        elif isinstance(event, CaseReplayed):
            self.held.done.add((event.row.case_id, event.row.repeat))


class Backtest:
    """Runs plans over a log in memory; ``rows`` of the last run by (case, repeat)."""

    def __init__(self, source: Source | None = None, *, model: Any = None) -> None:
        self.source: Source = source or FileSource(read_log_file())
        self.model = model or CountingModel()
        self.topic = TopicInMemory()
        self.rows: dict[tuple[str, int], RunCaseRow] = {}
        self.tables: Any = None

    async def run(
        self, plan: RunPlan, *, max_cost: Decimal | None = None, every: bool = False, at_once: int = 4, **more: Any
    ) -> RunResult:
        self.rows = {}
        held = self.topic.held
        performer = Performer(
            ports_of(self.model),
            CostLimit(max_cost, spent=held.spent),
            held,
            self.topic,
            on_miss=plan.on_miss,
            first_wait_s=0.0,
        )
        builder = builder_of(self.source, plan, every=every)
        surveyed = await survey(self.source, since=plan.cases_from, until=plan.cases_to)
        runner = Runner(
            plan,
            self.source,
            surveyed,
            builder,
            performer,
            self.topic,
            self.tables,
            progress=held,
            on_case=self._keep,
            **more,
        )
        return await runner.run(at_once=at_once)

    def _keep(self, row: RunCaseRow) -> None:
        self.rows[row.case_id, row.repeat] = row


def builder_of(source: Source, plan: RunPlan, *, every: bool = False) -> ReplayBuilder:
    """As if the log had been recorded by today's steps, unless every step is asked."""
    code = next((s.code_version for s in source.snapshots.values()), "")
    return ReplayBuilder(verification(), source.snapshots, plan.change, ask_every_step=every, code=code)


def changed_log(log: LogFile, change: Any) -> FileSource:
    """The log with every event passed through ``change(case_id, event) -> event``."""
    records: list[Record] = []
    for record in log.cases:
        env = wire.read_envelope(record.headers)
        event = change(env.case_id, wire.decode(env.type, env.version, record.value))
        records.append(msgspec.structs.replace(record, value=msgspec.json.encode(event)))
    return FileSource(msgspec.structs.replace(log, cases=tuple(records)))
