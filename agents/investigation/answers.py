"""The reply types of an investigation's models. The steps check and bound every field."""

from __future__ import annotations

import msgspec

from schemas.signals import EventType, Modality


class QuestionAnswer(msgspec.Struct):
    question: str
    query: str
    platforms: bool = False


class FrameAnswer(msgspec.Struct):
    """The reply of the frame (``investigate_frame.v1.schema.json``)."""

    questions: list[QuestionAnswer]


class StatedAnswer(msgspec.Struct):
    claim: str
    event_type: EventType
    modality: Modality
    told_by: list[int]
    question: int | None = None


class ClaimsAnswer(msgspec.Struct):
    """The claims that the pages state (``investigate_claims.v1.schema.json``)."""

    claims: list[StatedAnswer]


class SentenceAnswer(msgspec.Struct):
    claim: int
    text: str


class BriefAnswer(msgspec.Struct):
    """The sentences of a brief, each about one claim by its number (``investigate_brief.v1.schema.json``)."""

    sentences: list[SentenceAnswer]
