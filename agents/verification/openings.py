"""The claims that triage finds in a message, and the openings of those that get a case of their own."""

from __future__ import annotations

from msgspec.structs import replace

from agents.core.answers import DraftAnswer, answer
from agents.core.case import Case
from agents.evidence.message_parts import parts_of
from agents.evidence.news_claim import in_closed_words, parsed_text_of, with_asset
from agents.text.injection import steers_model
from schemas.effects import ModelReply, OpenPart, Reply
from schemas.signals import Draft, MessagePart, StatedClaim


def read_claim(judged: DraftAnswer, case: Case) -> tuple[Draft, StatedClaim | None]:
    """Return the draft and the claim of triage's judgement, by the tables; no claim under a prompt that requests none."""
    draft = judged.draft()
    if judged.claim is None:  # a prompt before version 3 asks for none
        return draft, None
    stated = in_closed_words(judged.claim.stated(), draft.event_type)
    return with_asset(draft, stated, case.config.tables), stated


def is_injected(case: Case) -> bool:
    """Return whether the message steers models."""
    return case.memo.once(steers_model, case.received.news.text)


def find_parts(case: Case, reply: Reply | None) -> tuple[MessagePart, ...]:
    """Return the claims of the message, this case's first; empty if it makes one, or if ``reply`` is no judgement of it.

    Raises:
        StepFailure: the reply is invalid.
    """
    at_most = case.config.claims_per_message
    if at_most < 2 or not isinstance(reply, ModelReply):
        return ()
    judged = answer(reply, DraftAnswer)
    draft, stated = read_claim(judged, case)
    if judged.spam or stated is None or parsed_text_of(case).modality != "asserted":
        return ()
    return parts_of(case.received.news.case_id, draft, stated, case.news.text, case.config.tables, at_most=at_most)


def opening_of(case: Case, part: MessagePart) -> OpenPart:
    """Return the effect that opens the case of another claim of this case's message."""
    received = case.received
    return OpenPart(
        news=received.news,
        part=replace(part, injection_suspected=is_injected(case)),
        config_hash=case.config_hash,
        text_hash=received.text_hash,
        language=received.language,
        authenticated=received.authenticated,
    )
