"""The analyze step: the agents judge the collected data concurrently; agents planned after them see their results.

Each reply is logged as it arrives. A call with a transient failure is retried on its own. An agent with a permanent failure
is reported as failed, and the other results are kept.
"""

from __future__ import annotations

from agents.analysis.blocks import OWN, can_judge
from agents.core.answers import one_line
from agents.core.case_core import Replies
from agents.core.failures import raise_to_retry
from agents.core.step import On, StepRequest
from agents.research.agent_calls import agent_call, agents_to_ask
from agents.research.results import fits, results_so_far, seen_by
from agents.research.turn import ANALYZE, Turn
from schemas.effects import CallModel, Failure, ModelReply, Reply
from schemas.events import Event
from schemas.research_events import AgentName, AgentsReported, DataCollected


class Analyze:
    """Calls only agents that have figures to judge. A reply that does not match its schema is requested once more."""

    name = ANALYZE
    takes = (On(DataCollected),)
    emits = (AgentsReported,)

    def ask(self, turn: Turn) -> StepRequest:
        first, later = agents_to_ask(turn)
        if not (first or later):
            return _reported(turn, turn.replies)
        asked = [call for agent in first for call in _calls(turn, agent, turn.replies)]
        if all(turn.replies.of(call) is not None for call in asked):
            # Later agents see these results, so retry transient failures before calling the later ones.
            _retry_while_it_may_help(turn, first, turn.replies)
            asked += [call for agent in later for call in _calls(turn, agent, turn.replies)]
        return tuple(asked)

    def tell(self, turn: Turn, replies: Replies) -> Event:
        first, later = agents_to_ask(turn)
        _retry_while_it_may_help(turn, (*first, *later), replies)
        return _reported(turn, replies)


def _calls(turn: Turn, agent: AgentName, replies: Replies) -> tuple[CallModel, ...]:
    before = seen_by(turn, agent)
    call = agent_call(turn, agent, before)
    reply = replies.of(call)
    misfit = isinstance(reply, ModelReply) and not fits(reply)
    return (call, agent_call(turn, agent, before, again=True)) if misfit else (call,)


def _last_reply(turn: Turn, agent: AgentName, replies: Replies) -> Reply | None:
    return replies.of(_calls(turn, agent, replies)[-1])


def _retry_while_it_may_help(turn: Turn, agents: tuple[AgentName, ...], replies: Replies) -> None:
    raise_to_retry(turn, ANALYZE, (_last_reply(turn, agent, replies) for agent in agents), now=replies.at)


def _reported(turn: Turn, replies: Replies) -> AgentsReported:
    assert turn.plan is not None
    results = results_so_far(turn)
    silent = [t.agent for t in turn.plan.task_breakdown if t.agent not in {r.agent_name for r in results}]
    return AgentsReported(results=results, failed=tuple((agent, _why(turn, agent, replies)) for agent in silent))


def _why(turn: Turn, agent: AgentName, replies: Replies) -> str:
    assert turn.data is not None
    if not can_judge(agent, turn.data):
        return f"not asked: no source gave any figure of {', '.join(OWN[agent])}"
    reply = _last_reply(turn, agent, replies)
    if isinstance(reply, Failure):
        return f"{reply.kind}: {one_line(reply.message, 200)}"
    return "invalid_output: its replies did not fit the schema"


STEP = Analyze()
