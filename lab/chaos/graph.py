"""The graph of chaos runs: the real event types and runtime, cheap steps, and every path that a case can take.

    EventReceived ─triage─► CaseTriaged ─search─► 2 × EffectCompleted, SearchCompleted ─critique─► EvidenceCritiqued
      ─finish─► SignalSynthesized          a step that gives up: CaseDegraded ─single_pass─► SignalSynthesized or CaseFailed

Each case makes four calls: two model calls (money) and two searches (units of the tool quota). One step has several
effects.
"""

from __future__ import annotations

from agents.core.case import Case, Replies
from agents.core.registry import Registry
from agents.core.step import On, StepFailure, StepRequest, needed, only_reply
from agents.graphs import NEWS
from agents.verification.second_look import STEP as LOOK_AGAIN
from schemas import events as ev
from schemas.effects import CallModel, Failure, ModelReply, Search, SearchReply, Trusted
from schemas.evidence import Findings, Sentiment
from tests.plain_graph import DRAFT, plain_signal

PROVIDERS = ("chaos-a", "chaos-b")
_SKIPPED = frozenset({"budget", "breaker_open", "not_configured"})
"""Failures that a case tolerates; other calls are retried."""


def _model(case: Case, task: str) -> CallModel:
    return CallModel(
        task=task,
        tier="light",
        prompt_name=task,
        prompt_version="1",
        prompt_hash="0",
        system="",
        parts=(Trusted(case.case_id),),
        max_output_tokens=64,
    )


class Triage:
    """One model call."""

    name, takes, emits = "triage", (On(ev.EventReceived),), (ev.CaseTriaged,)

    def ask(self, case: Case) -> StepRequest:
        return _model(case, self.name)

    def tell(self, case: Case, replies: Replies) -> ev.Event:
        """Route every case to the deep path."""
        needed(only_reply(replies), ModelReply)
        return ev.CaseTriaged(draft=DRAFT, route="deep", gate_reason="chaos", rollout_bucket=0.0)


class SearchTwice:
    """Two concurrent searches, each logged as it arrives."""

    name, takes, emits = "search", (On(ev.CaseTriaged, route="deep"),), (ev.SearchCompleted,)

    def ask(self, case: Case) -> StepRequest:
        return tuple(
            Search(provider=name, query=case.case_id, max_results=1, as_of=case.news.published_at) for name in PROVIDERS
        )

    def tell(self, case: Case, replies: Replies) -> ev.Event:
        """Record the outcomes. A search with a transient failure is retried alone."""
        for call in replies.calls:
            if isinstance(call.reply, Failure) and call.reply.kind not in _SKIPPED:
                raise StepFailure(call.reply)
        outcomes = tuple(
            ev.ProviderOutcome(
                provider=call.provider,
                query=case.case_id,
                hits=0,
                failure=call.reply if isinstance(call.reply, Failure) else None,
            )
            for call in replies.calls
            if isinstance(call.reply, SearchReply | Failure)
        )
        return ev.SearchCompleted(round=1, findings=_NOTHING, outcomes=outcomes, route="critique")


class Critique:
    """A second model call."""

    name, takes, emits = "critique", (On(ev.SearchCompleted, route="critique"),), (ev.EvidenceCritiqued,)

    def ask(self, case: Case) -> StepRequest:
        return _model(case, self.name)

    def tell(self, case: Case, replies: Replies) -> ev.Event:
        needed(only_reply(replies), ModelReply)
        return ev.EvidenceCritiqued(claims=(), verdict="not_enough_evidence")


class Finish:
    """Ends the deep path with a signal, without effects."""

    name, emits = "finish", (ev.SignalSynthesized,)
    takes = (
        On(ev.EvidenceCritiqued),
        On(ev.CaseTriaged, route="single_pass"),
        On(ev.CaseTriaged, route="preliminary"),
        On(ev.CaseTriaged, route="story"),
        On(ev.SearchCompleted, route="scrape"),
        On(ev.SearchCompleted, route="expand"),
    )

    def ask(self, case: Case) -> StepRequest:
        return self.tell(case, case.replies)

    def tell(self, case: Case, replies: Replies) -> ev.Event:
        return ev.SignalSynthesized(signal=plain_signal(case), path="deep")


class Degrade:
    """Switches to the single-pass analysis after a step gave up."""

    name, takes, emits = "degrade", (On(ev.StepFailed, outcome="degrade"),), (ev.CaseDegraded,)

    def ask(self, case: Case) -> StepRequest:
        return self.tell(case, case.replies)

    def tell(self, case: Case, replies: Replies) -> ev.Event:
        return ev.CaseDegraded(reason=case.head.failure.kind, failed_step=case.head.step)


class SinglePass:
    """One model call in place of all others."""

    name, takes, emits = "single_pass", (On(ev.CaseDegraded),), (ev.SignalSynthesized,)

    def ask(self, case: Case) -> StepRequest:
        return _model(case, self.name)

    def tell(self, case: Case, replies: Replies) -> ev.Event:
        needed(only_reply(replies), ModelReply)
        return ev.SignalSynthesized(signal=plain_signal(case), path="degraded")


class GiveUp:
    """Ends the case without a signal, with a dead letter."""

    name, emits = "give_up", (ev.CaseFailed,)
    takes = (On(ev.StepFailed, outcome="give_up"), On(ev.CancelRequested))

    def ask(self, case: Case) -> StepRequest:
        return self.tell(case, case.replies)

    def tell(self, case: Case, replies: Replies) -> ev.Event:
        head = case.head
        if isinstance(head, ev.StepFailed):
            return ev.CaseFailed(reason=head.failure.message, failed_step=head.step, attempts=head.attempt)
        return ev.CaseFailed(reason="cancelled", failed_step="", attempts=0)


def chaos_registry() -> Registry:
    """Return the graph described in the module docstring."""
    return Registry(
        [Triage(), SearchTwice(), Critique(), Finish(), Degrade(), SinglePass(), GiveUp(), LOOK_AGAIN], NEWS
    )


_NOTHING = Findings(
    keyword="",
    references=(),
    dropped=(),
    independent_sources=0,
    multi_source=False,
    official_confirmed=False,
    denied=False,
    conflict=False,
    stale=False,
    sentiment=Sentiment(panic=0.0, neutral=1.0, optimistic=0.0),
    source_count=0,
    confidence=0.0,
    triggered=False,
)
