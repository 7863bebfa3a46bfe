"""The claim that evidence is judged against, and the closed list of predicates."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

import msgspec

from schemas.signals import EventType, Modality

PREDICATES: Final[dict[EventType, tuple[str, ...]]] = {
    "listing": ("lists", "delists", "files", "opens_trading", "halts_trading"),
    "hack": ("hacked", "leaks_data", "account_taken_over", "halts", "recovers_funds", "reimburses"),
    "regulation": (
        *("approves", "rejects", "delays", "files", "proposes", "enacts", "permits", "bans", "licenses", "sanctions"),
        *(
            "investigates",
            "sues",
            "charges",
            "fines",
            "settles",
            "dismisses",
            "rules",
            "arrests",
            "sentences",
            "seizes",
        ),
    ),
    "partnership": ("partners", "acquires", "invests", "accepts_payment", "integrates", "ends"),
    "depeg": ("depegs", "recovers_peg", "halts_redemption"),
    "liquidation": ("liquidated", "bankrupt", "halts_withdrawals", "resumes_withdrawals"),
    "funding": ("raises", "invests", "acquires", "files", "goes_public", "buys_back"),
    "whale": ("buys", "sells", "transfers", "withdraws", "mints", "burns", "holds", "unlocks"),
    "product": ("launches", "upgrades", "delays", "discontinues", "halts", "resumes"),
    "macro": ("raises_rate", "cuts_rate", "holds_rate", "reports_figure"),
    "governance": ("proposes", "passes", "rejects", "appoints", "resigns", "burns"),
    "airdrop": ("airdrops", "opens_claims", "delays", "cancels"),
    "celebrity": ("says", "endorses", "buys", "sells"),
    "scam_alert": ("scams", "warns", "freezes"),
    "other": ("says", "warns", "lays_off", "halts", "reports_figure"),
}
"""Event type → the predicates allowed for it. Any other predicate becomes ``other``."""
PREDICATE_WORDS: Final = "; ".join(f"{kind}: {', '.join(words)}" for kind, words in PREDICATES.items())
"""The same on one line, for prompts."""


STORY_TIME = timedelta(hours=48)
"""Time during which an event is reported. An older denial or correction is about another event."""


class Claim(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A claim: the statement of a news item or of an investigation, with its parts.

    ``entity`` is the party that the claim is about, None if triage named none. ``subject`` and ``venue`` are as triage wrote
    them; :meth:`EntityIndex.parties` resolves them by the table. ``amount`` is the claimed figure as one plain number, None
    without one and for a share in percent; ``amount_unit`` as triage wrote it. ``as_of`` (UTC) is the case's own time.
    ``source_url`` is the page of the news itself, which is not evidence for it. ``begins_story``: a news item makes the claim
    at ``as_of``; False for a claim of an investigation, whose event may be older. ``origins`` are pages that the news was made
    of: neither they nor other pages of their owners corroborate it.
    """

    text: str
    language: str
    event_type: str
    asset: str
    as_of: datetime
    asset_name: str = ""
    subject: str = ""
    venue: str = ""
    amount: float | None = None
    amount_unit: str = ""
    modality: Modality = "asserted"
    entity: str | None = None
    source_url: str | None = None
    origins: tuple[str, ...] = ()
    begins_story: bool = True
