"""The route step: SuperAgent answers a question that needs no data, or requests a look-up of cases, an analysis, or both."""

from __future__ import annotations

from agents.analysis.words import paragraphs
from agents.core.answers import answer, clamped, one_line
from agents.core.case_core import Replies
from agents.core.step import On, StepRequest, only_reply
from agents.research.agent_calls import ask_agent, question_parts, whole_history
from agents.research.answers import RouteAnswer, case_query
from agents.research.citations import cited_only
from agents.research.turn import Turn
from schemas.events import Event
from schemas.research_events import QuestionAsked, QuestionRouted

NO_DIRECT_ANSWER = "(no direct answer was given, so the question is analysed)"


class Route:
    """Calls SuperAgent with the last five messages."""

    name = "route"
    takes = (On(QuestionAsked),)
    emits = (QuestionRouted,)

    def ask(self, turn: Turn) -> StepRequest:
        return ask_agent(turn, "research_route", (*whole_history(turn), *question_parts(turn)))

    def tell(self, turn: Turn, replies: Replies) -> Event:
        response = answer(only_reply(replies), RouteAnswer)
        # No data has been read yet, so there is nothing to cite.
        direct, _ = cited_only(paragraphs(response.direct_answer, 6_000), ())
        answers = response.decision == "DIRECT_ANSWER" and bool(direct)
        looked_up = response.decision in ("CASE_LOOKUP", "ANALYSIS_AND_CASES")
        reasoning = one_line(response.reasoning, 600)
        if response.decision == "DIRECT_ANSWER" and not answers:
            reasoning = f"{reasoning} {NO_DIRECT_ANSWER}".strip()
        return QuestionRouted(
            decision="DIRECT_ANSWER" if answers else "COMPLEX_ANALYSIS",
            reasoning=reasoning,
            confidence=round(clamped(response.confidence, 0.0, 1.0), 4),
            direct_answer=direct if answers else "",
            route="answer" if answers else "cases" if response.decision == "CASE_LOOKUP" else "plan",
            cases=case_query(response.cases) if looked_up else None,
        )


STEP = Route()
