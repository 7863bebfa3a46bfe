"""The triage step: detects duplicates and spam, drafts the claim, and chooses the path."""

from __future__ import annotations

from msgspec.structs import replace

from agents.core.answers import DraftAnswer, answer
from agents.core.case import Case, Replies
from agents.core.model_calls import ask_model, keyword_parts, news_parts
from agents.core.step import On, StepRequest, needed
from agents.evidence.claim import PREDICATE_WORDS
from agents.evidence.news_claim import parsed_text_of
from agents.evidence.story import story_of
from agents.signal import first_signal
from agents.verification.gate import gate, rollout_bucket
from agents.verification.openings import find_parts, is_injected, opening_of, read_claim
from schemas.effects import CallModel, EarlierReply, Failure, FindEarlier, PublishedReply
from schemas.events import CaseDropped, CaseTriaged, Event, EventReceived
from schemas.ids import normalise_text
from schemas.signals import Draft, MessagePart, StatedClaim


class Triage:
    """Checks first, at no cost, whether another case has this text. Only then pays for a model call.

    If stories are searched for, only a case of the same owner counts (:mod:`streams.intake.text_index`).

    A claim that somebody asks about is no report: it is judged whatever the log holds, and always searched for.

    If the message makes several claims, the others' cases are in the log before this one's judgement is. Such a case opens
    with its judgement, and requests nothing.
    """

    name = "triage"
    takes = (On(EventReceived),)
    emits = (CaseTriaged, CaseDropped)

    def ask(self, case: Case) -> StepRequest:
        if case.received.part is not None:
            return self.tell(case, case.replies)
        if not normalise_text(case.news.text):
            return CaseDropped(reason="empty", detail="the text holds no word: there is nothing to judge")
        if case.news.is_asked:
            return (_judgement(case),)
        earlier = case.replies.of(_check(case))
        if earlier is None or _first_case(earlier) is not None:
            return (_check(case),)
        parts = find_parts(case, case.replies.of(_judgement(case)))
        return (_check(case), _judgement(case), *(opening_of(case, part) for part in parts[1:]))

    def tell(self, case: Case, replies: Replies) -> Event:
        if (part := case.received.part) is not None and part.draft is not None:
            return _triaged(case, replies, part.draft, part.claim, injected=part.injection_suspected)
        earlier = replies.of(_check(case))
        first = _first_case(earlier)
        if first is not None:
            return CaseDropped(reason="duplicate", detail="another case has the same text", duplicate_of=first)
        judged = answer(replies.of(_judgement(case)), DraftAnswer)
        if judged.spam:
            return CaseDropped(reason="spam", detail=judged.draft().notes or "advertising, or no claim at all")
        unchecked = f"; duplicates were not checked ({earlier.kind})" if isinstance(earlier, Failure) else ""
        parts = () if case.news.is_asked else find_parts(case, replies.of(_judgement(case)))
        for other in parts[1:]:
            needed(replies.of(opening_of(case, other)), PublishedReply)
        draft, stated = read_claim(judged, case)
        own = None
        if parts:
            draft, stated = parts[0].draft or draft, parts[0].claim
            own = replace(parts[0], draft=None, claim=None)
        return _triaged(case, replies, draft, stated, injected=is_injected(case), part=own, reason_too=unchecked)


def _triaged(
    case: Case, replies: Replies, draft: Draft, stated: StatedClaim | None, *, injected: bool,
    part: MessagePart | None = None, reason_too: str = "",
) -> CaseTriaged:  # fmt: skip
    claim_read = stated or StatedClaim(modality=parsed_text_of(case).modality)
    # All claims of a message are in the rollout, or none is.
    bucket = rollout_bucket(case.case_id if case.received.part is None else case.received.part.first_case)
    route, reason = gate(draft, claim_read, bucket, case.config, listed=case.has_listed_source)
    if case.news.is_asked and case.config.deep_analysis_tools_enabled:
        route, reason = "deep", "somebody asks about this claim"
    looked_for = bool(case.config.story_window_hours) and not case.news.is_asked
    text = case.news.text if part is None else part.text
    story = story_of(draft, claim_read, case.config.tables, text) if looked_for else None
    # A listener's item may be a party's own page, whatever its text: only the log knows its address.
    via_story = story is not None or (looked_for and case.received.authenticated)
    triaged = CaseTriaged(
        draft=draft,
        route="story" if via_story else route,
        gate_reason=reason + reason_too,
        rollout_bucket=bucket,
        injection_suspected=injected,
        claim=stated,
        story=story,
        then=route if via_story else None,
        part=part,
    )
    if route == "preliminary" or case.news.is_asked or not case.config.publish_preliminary:
        return triaged
    return replace(triaged, preliminary_signal=first_signal(replace(case, triaged=triaged), replies))


def _check(case: Case) -> FindEarlier:
    # A later attempt uses the id of the first one, which owns the text.
    first = case.case_id if case.received.retries is None else case.news.case_id
    return FindEarlier(text_hash=case.received.text_hash, case_id=first)


def _judgement(case: Case) -> CallModel:
    parts = (*news_parts(case), *keyword_parts(case))
    return ask_model(case, "triage", parts, predicates=PREDICATE_WORDS)


def _first_case(reply: object) -> str | None:
    # A failed duplicate check does not stop the case: a second signal on one text is less harmful than none.
    return reply.first_case if isinstance(reply, EarlierReply) else None


STEP = Triage()
