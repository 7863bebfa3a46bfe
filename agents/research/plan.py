"""The plan step: PlanningAgent picks the agents, the data that they need, and their order."""

from __future__ import annotations

from agents.core.answers import answer
from agents.core.case_core import Replies
from agents.core.step import On, StepRequest, only_reply
from agents.research.agent_calls import ask_agent, question_parts, whole_history
from agents.research.answers import PlanAnswer, sanitise_plan
from agents.research.turn import Turn
from schemas.events import Event
from schemas.research_events import AnalysisPlanned, QuestionRouted


class Plan:
    """Calls PlanningAgent with the last five messages. Code sanitises its plan."""

    name = "plan"
    takes = (On(QuestionRouted, route="plan"),)
    emits = (AnalysisPlanned,)

    def ask(self, turn: Turn) -> StepRequest:
        return ask_agent(turn, "research_plan", (*whole_history(turn), *question_parts(turn)))

    def tell(self, turn: Turn, replies: Replies) -> Event:
        return sanitise_plan(answer(only_reply(replies), PlanAnswer))


STEP = Plan()
