"""The reply types of the chat's agents. Each reply is checked and bounded before it enters an event."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from schemas.research_events import Outlook


class RouteAnswer(msgspec.Struct):
    """The reply of SuperAgent (``research_route.v2.schema.json``). ``cases`` is checked field by field."""

    decision: Literal["DIRECT_ANSWER", "COMPLEX_ANALYSIS", "CASE_LOOKUP"]
    reasoning: str
    confidence: float
    direct_answer: str = ""
    cases: Any = None


class PlanAnswer(msgspec.Struct):
    """The reply of PlanningAgent (``research_plan.v1.schema.json``). Tasks and strategy are checked field by field."""

    asset: str
    task_breakdown: list[Any]
    execution_strategy: Any
    reasoning: str


class IndicatorAnswer(msgspec.Struct):
    """An agent's weighting of one figure. It has no value: values come only from the sources."""

    name: str
    impact: Outlook
    weight: float


class AgentAnswer(msgspec.Struct):
    """The reply of MacroAgent, TAAgent and OnChainAgent (``research_agent.v1.schema.json``)."""

    signal: Outlook
    confidence: float
    reasoning: str
    indicators: list[IndicatorAnswer]
    key_factors: list[str]
    risk_assessment: str


class CasesAnswer(msgspec.Struct):
    """The reply on the pipeline's cases (``research_cases.v1.schema.json``). ``relevant``: numbers of cases."""

    answer: str
    relevant: list[Any]
    confidence: float


class FinalAnswer(msgspec.Struct):
    """The reply of GeneralAnalysisAgent (``research_answer.v1.schema.json``). Code adds sources and metadata."""

    answer: str
    summary: str
    key_insights: list[str]
    confidence: float
