"""Signals: the public output contract of the ``signals`` topic, and the draft that a case works on."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from schemas.calls import ProviderMode
from schemas.evidence import Stance
from schemas.printable import printable_line

SIGNAL_SCHEMA_VERSION = 1

Action = Literal["buy", "sell", "observe"]
Direction = Literal["long", "short", "neutral"]
Strength = Literal["low", "medium", "high"]
Timeframe = Literal["short", "medium", "long"]
EventType = Literal[
    "listing",
    "hack",
    "regulation",
    "partnership",
    "depeg",
    "liquidation",
    "funding",
    "whale",
    "product",
    "macro",
    "governance",
    "airdrop",
    "celebrity",
    "scam_alert",
    "other",
]
SignalStatus = Literal["preliminary", "preliminary_only", "verified", "degraded", "superseded", "retracted"]


class Draft(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A judgement of one news item: what triage gives first and synthesis gives last. ``confidence`` is 0–1.

    ``entity`` is whom the claim is about (a company, exchange, regulator), None when it names nobody.
    """

    summary: str
    event_type: EventType
    asset: str
    asset_name: str
    action: Action
    direction: Direction
    confidence: float
    strength: Strength
    timeframe: Timeframe
    risk_flags: tuple[str, ...] = ()
    notes: str = ""
    links: tuple[str, ...] = ()
    entity: str | None = None


class Adjustment(msgspec.Struct, frozen=True, kw_only=True):
    """One step from the preliminary to the final confidence: which rule, by how much, and why in words."""

    rule: str
    amount: float
    reason: str


class SignalEvidence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One page that the signal rests on. ``hash`` is over the text that was read."""

    url: str
    hash: str
    stance: Stance
    reference_number: int
    official: bool = False
    independent: bool = False
    published_at: datetime | None = None


class PromptUse(msgspec.Struct, frozen=True, kw_only=True):
    """Which version of which prompt took part."""

    name: str
    version: str
    hash: str


class Signal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=False):
    """One revision of a case's signal. Within a ``signal_id`` the highest ``revision`` counts.

    ``confidence`` is raw; ``confidence_calibrated`` is None until a calibration exists. ``venue`` is never defaulted.
    ``decided_at`` and ``valid_until`` are UTC; ``horizon`` is the number of seconds that ``timeframe`` stands for.
    ``provider_mode`` says offline or simulated plainly: such a signal is for trying and testing only.
    """

    schema_version: int
    signal_id: str
    revision: int
    supersedes: int | None
    status: SignalStatus
    case_id: str
    summary: str
    event_type: EventType
    asset: str
    asset_name: str
    symbol: str | None
    venue: str | None
    action: Action
    direction: Direction
    confidence: float
    confidence_calibrated: float | None
    preliminary_confidence: float
    strength: Strength
    timeframe: Timeframe
    horizon: int
    valid_until: datetime
    decided_at: datetime
    published_at: datetime
    reference_price: float | None
    notes: str
    links: tuple[str, ...]
    evidence: tuple[SignalEvidence, ...]
    independent_sources: int
    risk_flags: tuple[str, ...]
    adjustments: tuple[Adjustment, ...]
    prompt_versions: tuple[PromptUse, ...]
    model: str | None
    provider_mode: ProviderMode
    news_source: str
    language: str

    def __str__(self) -> str:
        """Return what a bot's owner reads, on one line that no terminal obeys: the fields hold words of strangers."""
        said = (self.status, self.action, self.asset, f"{self.confidence:.2f}", self.summary, *self.links)
        return printable_line(" ".join(said))
