"""The single-pass step: one model call with two functions, then the signal. For cases outside the rollout, and as fallback."""

from __future__ import annotations

from msgspec.structs import replace

from agents.core.answers import DraftAnswer, answer, cite_only
from agents.core.case import Case, Replies
from agents.core.model_calls import ask_model, memory_parts, news_parts, result_parts
from agents.core.step import On, StepFailure, StepRequest, needed
from agents.evidence.claim import PREDICATE_WORDS
from agents.evidence.news_claim import in_closed_words
from agents.planning.rounds import case_with_draft, skipped_flags
from agents.planning.search import outcome
from agents.signal import judged_signal
from agents.text.injection import steers_model
from agents.verification.single_pass_tools import (
    FETCH_MEMORIES,
    SEARCH_NEWS,
    chosen_effects,
    evidence_of_pass,
    functions,
    signal_without_budget,
)
from schemas.effects import CallModel, Effect, Failure, ModelReply, Recall, RecallReply, Search, SearchReply
from schemas.events import CaseDegraded, CaseDropped, CaseTriaged, Event, SignalSynthesized, StoryChecked
from schemas.evidence import SearchResult
from schemas.signals import Draft, StatedClaim


class SinglePass:
    """Lets the model choose functions, performs each at most once, then judges by the same rules of evidence.

    No critic reads the pages here, so the verdict is at most likely and the confidence is not raised.
    """

    name = "single_pass"
    takes = (On(CaseTriaged, route="single_pass"), On(StoryChecked, route="single_pass"), On(CaseDegraded))
    emits = (SignalSynthesized, CaseDropped)
    declares = (FETCH_MEMORIES, SEARCH_NEWS)

    def ask(self, case: Case) -> StepRequest:
        choice = _choice(case)
        chosen = case.replies.of(choice)
        if not isinstance(chosen, ModelReply):
            return (choice,)
        effects = chosen_effects(case, chosen)
        if any(case.replies.of(e) is None for e in effects):
            return (choice, *effects)
        return (choice, *effects, _judgement(case, case.replies, effects))

    def tell(self, case: Case, replies: Replies) -> Event:
        try:
            return _judged(case, replies)
        except StepFailure as stop:
            return signal_without_budget(case, replies, stop)


def _judged(case: Case, replies: Replies) -> Event:
    effects = chosen_effects(case, needed(replies.of(_choice(case)), ModelReply))
    response = answer(replies.of(_judgement(case, replies, effects)), DraftAnswer)
    if response.spam and case.triaged is None:
        return CaseDropped(reason="spam", detail=response.draft().notes or "advertising, or no claim at all")
    draft = _draft(case, response.draft())
    known = case if case.triaged is not None else case_with_draft(case, draft, _stated(response, draft))
    searched = tuple(outcome(e, replies.of(e)) for e in effects if isinstance(e, Search))
    signal = judged_signal(
        known,
        replies,
        draft,
        evidence_of_pass(known, replies, searched),
        memory=tuple(m for r in replies.all(RecallReply) for m in r.entries),
        extra_flags=(*skipped_flags((searched,)), *_flags(case, effects, replies)),
        reason=cite_only(response.draft().notes, None),
    )
    return SignalSynthesized(
        signal=signal, path="degraded" if case.degraded else "single_pass", adjustments=signal.adjustments
    )


def _stated(response: DraftAnswer, draft: Draft) -> StatedClaim | None:
    return in_closed_words(response.claim.stated(), draft.event_type) if response.claim is not None else None


def _choice(case: Case) -> CallModel:
    return ask_model(case, "single_pass", news_parts(case), functions=functions(case.config))


def _judgement(case: Case, replies: Replies, effects: tuple[Effect, ...]) -> CallModel:
    hits = [hit for e in effects if isinstance(r := replies.of(e), SearchReply) for hit in r.results]
    past = [entry for e in effects if isinstance(r := replies.of(e), RecallReply) for entry in r.entries]
    usable = [h for h in hits if not steers_model(f"{h.title}\n{h.snippet}") and _known(h, case)]
    parts = (*news_parts(case), *memory_parts(past), *result_parts(usable))
    return ask_model(case, "single_pass_final", parts, predicates=PREDICATE_WORDS)


def _known(hit: SearchResult, case: Case) -> bool:
    return hit.published_at is None or hit.published_at <= case.as_of


def _draft(case: Case, response: Draft) -> Draft:
    # Triage's draft is kept if there is one. The second reading may only soften the action to observe.
    if case.triaged is None:
        return response
    return replace(case.draft, action="observe" if response.action == "observe" else case.draft.action)


def _flags(case: Case, effects: tuple[Effect, ...], replies: Replies) -> tuple[str, ...]:
    unsearched = () if replies.all(SearchReply) or case.degraded else ("not_deep_analysed",)
    silent = any(isinstance(e, Recall) and isinstance(replies.of(e), Failure) for e in effects)
    return (*unsearched, *(("memory_unavailable",) if silent else ()))


STEP = SinglePass()
