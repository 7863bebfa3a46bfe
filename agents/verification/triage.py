"""The triage step: detects duplicates and spam, drafts the claim, and chooses the path."""

from __future__ import annotations

from msgspec.structs import replace

from agents.core.answers import DraftAnswer, answer
from agents.core.case import Case, Replies
from agents.core.model_calls import ask_model, keyword_parts, news_parts
from agents.core.step import On, StepRequest
from agents.evidence.claim import PREDICATE_WORDS
from agents.evidence.news_claim import in_closed_words, parsed_text_of, with_asset
from agents.evidence.story import story_of
from agents.signal import first_signal
from agents.text.injection import steers_model
from agents.verification.gate import gate, rollout_bucket
from schemas.effects import CallModel, EarlierReply, Failure, FindEarlier
from schemas.events import CaseDropped, CaseTriaged, Event, EventReceived
from schemas.ids import normalise_text
from schemas.signals import Draft, StatedClaim


class Triage:
    """Checks first, at no cost, whether another case has this text. Only then pays for a model call.

    If stories are searched for, only a case of the same owner counts (:mod:`streams.intake.text_index`).
    """

    name = "triage"
    takes = (On(EventReceived),)
    emits = (CaseTriaged, CaseDropped)

    def ask(self, case: Case) -> StepRequest:
        if not normalise_text(case.news.text):
            return CaseDropped(reason="empty", detail="the text holds no word: there is nothing to judge")
        earlier = case.replies.of(_check(case))
        if earlier is None or _first_case(earlier) is not None:
            return (_check(case),)
        return (_check(case), _judgement(case))

    def tell(self, case: Case, replies: Replies) -> Event:
        earlier = replies.of(_check(case))
        first = _first_case(earlier)
        if first is not None:
            return CaseDropped(reason="duplicate", detail="another case has the same text", duplicate_of=first)
        judged = answer(replies.of(_judgement(case)), DraftAnswer)
        if judged.spam:
            return CaseDropped(reason="spam", detail=judged.draft().notes or "advertising, or no claim at all")
        draft, stated = _claimed(judged, case)
        claim_read = stated or StatedClaim(modality=parsed_text_of(case).modality)
        bucket = rollout_bucket(case.case_id)
        route, reason = gate(draft, claim_read, bucket, case.config, listed=case.has_listed_source)
        if isinstance(earlier, Failure):
            reason += f"; duplicates were not checked ({earlier.kind})"
        looked_for = bool(case.config.story_window_hours)
        story = story_of(draft, claim_read, case.config.tables, case.news.text) if looked_for else None
        # A listener's item may be a party's own page, whatever its text: only the log knows its address.
        via_story = story is not None or (looked_for and case.received.authenticated)
        triaged = CaseTriaged(
            draft=draft,
            route="story" if via_story else route,
            gate_reason=reason,
            rollout_bucket=bucket,
            injection_suspected=case.memo.once(steers_model, case.news.text),
            claim=stated,
            story=story,
            then=route if via_story else None,
        )
        if route == "preliminary" or not case.config.publish_preliminary:
            return triaged
        return replace(triaged, preliminary_signal=first_signal(replace(case, triaged=triaged), replies))


def _check(case: Case) -> FindEarlier:
    # A later attempt uses the id of the first one, which owns the text.
    first = case.case_id if case.received.retries is None else case.news.case_id
    return FindEarlier(text_hash=case.received.text_hash, case_id=first)


def _judgement(case: Case) -> CallModel:
    parts = (*news_parts(case), *keyword_parts(case))
    return ask_model(case, "triage", parts, predicates=PREDICATE_WORDS)


def _claimed(judged: DraftAnswer, case: Case) -> tuple[Draft, StatedClaim | None]:
    draft = judged.draft()
    if judged.claim is None:  # a prompt before version 3 asks for none
        return draft, None
    stated = in_closed_words(judged.claim.stated(), draft.event_type)
    return with_asset(draft, stated, case.config.tables), stated


def _first_case(reply: object) -> str | None:
    # A failed duplicate check does not stop the case: a second signal on one text is less harmful than none.
    return reply.first_case if isinstance(reply, EarlierReply) else None


STEP = Triage()
