"""The claim that evidence is judged against."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from agents.core.case import Case

Modality = Literal["asserted", "planned", "rumoured", "denied", "corrected"]


class Claim(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the news says, and about whom. ``entity`` is the party it is about, None if triage named none.

    ``as_of`` (UTC) is the case's own time. ``source_url`` is the page of the news itself, which is not evidence for it.
    """

    text: str
    language: str
    event_type: str
    asset: str
    as_of: datetime
    asset_name: str = ""
    subject: str = ""
    modality: Modality = "asserted"
    entity: str | None = None
    source_url: str | None = None


def claim_of(case: Case) -> Claim:
    """Return the claim of a triaged case.

    Raises:
        LookupError: before triage.
    """
    draft = case.draft
    return Claim(
        text=case.news.text,
        language=case.language,
        event_type=draft.event_type,
        asset=draft.asset,
        asset_name=draft.asset_name,
        entity=draft.entity,
        as_of=case.as_of,
        source_url=case.news.url,
    )
