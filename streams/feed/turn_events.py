"""SSE events of a chat's stream, made from the accepted records of its turn. Pure: equal records give equal events.

Every ``data`` has the ``timestamp`` of its record. Stages: routing, planning, data_collection, analysis, synthesis. For
front ends that know no more than a phase, a price and a level, these stand beside the full fields: ``decision_phase``,
``agent_id``, ``level``, ``btc_price`` and ``price_change_24h``. A stream in the format ``compat`` also has the fields that
the front end of docs/research-chat.md reads, under their documented names and shapes.
"""

from __future__ import annotations

from typing import Any

import msgspec

from agents.analysis.blocks import EXPECTED
from agents.research.agent_calls import agent_of
from agents.research.results import agent_result, level
from agents.research.turn import ANALYZE, Turn, fold_turn, open_turn
from schemas import envelope as wire
from schemas import events as ev
from schemas import research_events as rev
from schemas.calls import Call
from schemas.config import Snapshot
from schemas.effects import Failure
from schemas.research_events import BriefWritten

Frame = tuple[str, dict[str, Any]]
"""Name and data of an SSE event."""
SHORT = 200
"""Maximum number of characters in ``reasoning``; ``full`` holds the whole."""
STAGES = {
    "routing": ("planning", ("Looking at the question", "正在理解问题")),
    "planning": ("planning", ("Planning the analysis", "正在规划分析")),
    "data_collection": ("executing", ("Collecting data", "正在收集数据")),
    "analysis": ("executing", ("The agents analyse the data", "各智能体正在分析数据")),
    "synthesis": ("synthesizing", ("Writing the answer", "正在撰写回答")),
}
"""``decision_phase`` and words of each stage. A turn ends in completed, stopped or failed; one that is tried again is recovering."""
AGENT_IDS: dict[str, str] = {"MacroAgent": "macro_agent", "TAAgent": "ta_agent", "OnChainAgent": "onchain_agent"}
OTHER_AGENTS = {
    "SuperAgent": "super_agent",
    "PlanningAgent": "planning_agent",
    "GeneralAnalysisAgent": "general_analysis_agent",
}
_NAMED = ("step_id", "agent_name", "agent")
WRITER = OTHER_AGENTS["GeneralAnalysisAgent"]


class TurnEventConverter:
    """Converts the records of one turn, in log order, into events. ``over`` is set once its end was converted.

    ``candles``: send the price bars; otherwise only their number. ``compat``: add the fields of :func:`with_documented_fields`.
    """

    def __init__(self, config: Snapshot | None, *, candles: bool = False, compat: bool = False) -> None:
        self._config, self._candles, self._compat = config, candles, compat
        self._turn: Turn | None = None
        self._stage = "routing"
        self.over = False

    def take(self, env: wire.Envelope, event: Any) -> list[Frame]:
        """Return the events of the next accepted record, in order of sending; possibly none."""
        if self._turn is None:
            if not isinstance(event, rev.QuestionAsked):
                return []
            self._turn = open_turn(
                event, case_id=env.case_id, event_id=env.id, run_id=env.run_id, at=env.time, config=self._config
            )
        else:
            self.over = isinstance(event, ev.TERMINAL)
            if not self.over:  # report an end whatever came before it
                self._turn = fold_turn(self._turn, event, event_id=env.id, at=env.time)
        frames = self._convert(self._turn, event)
        if self._compat:
            frames = [(name, with_documented_fields(name, data, event.calls)) for name, data in frames]
        return [(name, {**data, "timestamp": env.time}) for name, data in frames]

    def _convert(self, turn: Turn, event: Any) -> list[Frame]:
        if isinstance(event, ev.TERMINAL):
            return _ending(event)
        match event:
            case rev.QuestionAsked():
                asked = {"chat_id": turn.case_id, "conversation": event.chat_id, "question": event.message}
                return [self._status("routing", **asked)]
            case rev.QuestionRouted():
                decided: Frame = "super_agent_decision", fields_of(event)
                follows = {"plan": "planning", "cases": "data_collection"}.get(event.route)
                return [decided, *([self._status(follows)] if follows else [])]
            case rev.AnalysisPlanned():
                asked_agents = [AGENT_IDS[part.agent] for part in event.task_breakdown]
                planned: Frame = "planning_result", {**fields_of(event), "agent_ids": asked_agents}
                return [planned, self._status("data_collection")]
            case rev.DataCollected():
                return [("data_collected", _collected(event, candles=self._candles)), self._status("analysis")]
            case rev.CasesFound() if turn.data is not None:
                return [("data_collected", _collected(turn.data, candles=False)), self._status("synthesis")]
            case ev.EffectCompleted(step=step) if step == ANALYZE:
                return [_agent(turn, call) for call in event.calls]
            case rev.AgentsReported() | rev.FinishRequested():
                return [self._status("synthesis")]
            case ev.StepFailed():
                return self._failed(event)
            case _:
                return []

    def _status(self, stage: str, message: str = "", *, phase: str = "", **more: Any) -> Frame:
        self._stage = stage
        usual, words = STAGES[stage]
        return "status", {
            "stage": stage,
            "decision_phase": phase or usual,
            "message": message or self._words(words),
            **more,
        }

    def _failed(self, event: ev.StepFailed) -> list[Frame]:
        if event.outcome == "give_up":
            return []  # an answer made by code, or an error, follows
        why = f"{event.step}: {event.failure.message} ({event.failure.kind})"
        if event.outcome == "retry":
            at = "" if event.retry_at is None else f"{event.retry_at:%H:%M:%S} UTC"
            words = (f"{why}; the worker retries it at {at}", f"{why};将于 {at} 重试")
            again = {"retry_at": event.retry_at, "attempt": event.attempt}
            return [self._status(self._stage, self._words(words), phase="recovering", **again)]
        words = (f"{why}; the answer is written from what is there", f"{why};将根据已有内容作答")
        return [self._status("synthesis", self._words(words), phase="recovering")]

    def _words(self, both: tuple[str, str]) -> str:
        return both[1] if self._turn is not None and self._turn.language == "zh" else both[0]


def fields_of(event: msgspec.Struct) -> dict[str, Any]:
    """Return every field of an event except its calls and its tag, including those with default values."""
    return {name: getattr(event, name) for name in event.__struct_fields__ if name != "calls"}


def _collected(event: rev.DataCollected, *, candles: bool) -> dict[str, Any]:
    fields = {**fields_of(event), "candle_count": len(event.candles)}
    if not candles:
        del fields["candles"]
    price = {figure.name: figure.value for figure in event.price}
    # A chat about another asset has that asset's price in `price`, and none of Bitcoin.
    of_bitcoin = price.get("price") if event.asset == "BTC" else None
    return {**fields, "btc_price": of_bitcoin, "price_change_24h": price.get("price_change_24h")}


def _agent(turn: Turn, call: Call) -> Frame:
    try:
        result = agent_result(turn, call)
    except LookupError as exc:  # the configuration that the turn pins has not arrived
        result = Failure(kind="internal", message=str(exc), retryable=False)
    if isinstance(result, Failure):
        name = agent_of(call.prompt_name) or ""
        about = {"agent_name": name, "agent_id": AGENT_IDS.get(name, "")}
        return "agent_result", {**about, "error": result.message, "kind": result.kind}
    fields = {name: getattr(result, name) for name in result.__struct_fields__}
    short = result.reasoning if len(result.reasoning) <= SHORT else result.reasoning[:SHORT]
    simple = {"agent_id": AGENT_IDS[result.agent_name], "level": result.confidence_level.upper()}
    return "agent_result", {**fields, **simple, "reasoning": short, "full": fields}


def with_documented_fields(name: str, data: dict[str, Any], calls: tuple[Call, ...]) -> dict[str, Any]:
    """Return the data of an event in the format ``compat``. ``calls`` are those of its record.

    A field of the same name has the documented shape instead of its own: ``task_breakdown``, which is then in ``tasks``,
    ``sources``, which are then in ``citations``, ``agent_name`` and ``confidence_level``.
    """
    match name:
        case "super_agent_decision":
            agent, more = OTHER_AGENTS["SuperAgent"], {}
        case "planning_result":
            agent, more = OTHER_AGENTS["PlanningAgent"], _phases(data)
        case "agent_result":
            agent, more = data["agent_id"], {"confidence_level": data["level"]} if "level" in data else {}
            if "indicators" in data and agent == AGENT_IDS["MacroAgent"]:
                shown = {one: data["indicators"][one] for one in EXPECTED["MacroAgent"]}
                more["macro_indicators"] = {
                    one: {"value": of.value, "impact": of.impact, "weight": of.weight} for one, of in shown.items()
                }
        case "final_answer":
            ids = AGENT_IDS | OTHER_AGENTS
            agent, more = WRITER, {"confidence_level": level(data["confidence"]).upper()}
            more |= {"citations": data["sources"], "sources": [ids.get(one, one) for one in data["metadata"].agents]}
        case _:
            return data
    tokens = sum(c.usage_input_tokens + c.usage_output_tokens + c.usage_thinking_tokens for c in calls)
    return {**data, **dict.fromkeys(_NAMED, agent), "tokens_used": tokens, **more}


def _phases(plan: dict[str, Any]) -> dict[str, Any]:
    later = plan["execution_strategy"].sequential_after
    first = [AGENT_IDS[agent] for agent in plan["execution_strategy"].parallel_agents]
    analysis = [
        {
            **dict.fromkeys(_NAMED, AGENT_IDS[task.agent]),
            "reason": task.reason,
            "priority": task.priority,
            "data_required": task.data_required,
            "depends_on": first if task.agent in later else [],
        }
        for task in plan["task_breakdown"]
    ]
    decision = {**dict.fromkeys(_NAMED, WRITER), "depends_on": plan["agent_ids"]}
    breakdown = {"analysis_phase": analysis, "decision_phase": decision}
    return {"task_breakdown": breakdown, "tasks": plan["task_breakdown"]}


def _ending(event: Any) -> list[Frame]:
    match event:
        case rev.AnswerGiven():
            return [("final_answer", fields_of(event)), ("done", {"decision_phase": "completed"})]
        case rev.AnswerStopped(requested_by=by, reason=reason):
            ending = {"decision_phase": "stopped", "stopped": True, "requested_by": by, "reason": reason}
            return [("done", ending)]
        case _:
            step = getattr(event, "failed_step", "")
            words = getattr(event, "reason", type(event).__name__)
            failed = {"decision_phase": "failed"}
            return [("error", {"error": step or "failed", "message": words, **failed}), ("done", failed)]


def state_of(event: Any) -> str:
    """Return the state of a turn or an investigation from its newest accepted event.

    running, answered, stopped or failed; an investigation with a brief is finished.
    """
    match event:
        case BriefWritten():
            return "finished"
        case rev.AnswerGiven():
            return "answered"
        case rev.AnswerStopped():
            return "stopped"
        case _:
            return "failed" if isinstance(event, ev.TERMINAL) else "running"
