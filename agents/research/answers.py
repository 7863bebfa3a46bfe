"""What the agents of a chat reply, as they wrote it. Each is checked and bounded before any of it enters an event."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from schemas.research_events import Outlook


class RouteAnswer(msgspec.Struct):
    """The reply of SuperAgent (``research_route.v1.schema.json``)."""

    decision: Literal["DIRECT_ANSWER", "COMPLEX_ANALYSIS"]
    reasoning: str
    confidence: float
    direct_answer: str = ""


class PlanAnswer(msgspec.Struct):
    """The reply of PlanningAgent (``research_plan.v1.schema.json``). Tasks and strategy are looked at field by field."""

    asset: str
    task_breakdown: list[Any]
    execution_strategy: Any
    reasoning: str


class IndicatorAnswer(msgspec.Struct):
    """How an agent weighed one figure. There is no value in it: values are the sources'."""

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


class FinalAnswer(msgspec.Struct):
    """The reply of GeneralAnalysisAgent (``research_answer.v1.schema.json``). Sources and metadata are made by code."""

    answer: str
    summary: str
    key_insights: list[str]
    confidence: float
