"""Signals: the public output contract of the ``signals`` topic, and the draft that a case works on."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from schemas.evidence import ProviderMode, ReadStance
from schemas.printable import printable_line

SIGNAL_SCHEMA_VERSION = 2

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
Stage = Literal["preliminary", "final", "superseded", "retracted"]
"""How far a revision got. ``preliminary``: triage's first judgement, before any search. ``final``: the case has ended.
``superseded`` and ``retracted``: later news corrected or denied it, or the case ended without a signal."""
Verdict = Literal["confirmed", "likely", "unconfirmed", "stale", "disputed", "refuted", "unchecked"]
"""What the search found of the claim; docs/verification.md says when each word applies. ``unchecked``: nothing was found
out, and ``unchecked_reason`` says why."""
ACTED_ON = frozenset[Verdict]({"confirmed", "likely"})
"""Verdicts that leave an order; any other one ends as ``observe``."""
WITHDRAWN = frozenset[Stage]({"retracted", "superseded"})
"""Stages that take a judgement back."""
SECOND_LOOK = "second_look"
"""The rule of the last adjustment of a signal that a second look made: the next revision of its first case's signal."""
NO_ASSET = "UNKNOWN"
"""The ``asset`` of a signal that is about none."""
Modality = Literal["asserted", "planned", "rumoured", "denied", "corrected"]
"""How the news puts its claim."""
Attribution = Literal["named", "unnamed", "none"]
"""Whom the news names as its source: somebody by name, “insiders”, or nobody."""


class ClaimAmount(msgspec.Struct, frozen=True, kw_only=True):
    """A figure of a claim as one plain number. ``unit`` as triage wrote it: a currency, a ticker, a percent sign."""

    value: float
    unit: str = ""


class StatedClaim(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one news item claims, as triage reads it. ``subject`` acts or is acted on; ``asset`` and ``venue`` as written.

    ``predicate`` is a word of the event type's closed list (``agents.evidence.claim.PREDICATES``) or ``other``.
    """

    subject: str = ""
    predicate: str = "other"
    object: str = ""
    amount: ClaimAmount | None = None
    asset: str = ""
    venue: str = ""
    modality: Modality = "asserted"
    attribution: Attribution = "none"


class Story(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one news item tells, in words that other tellings of the event share: names resolved by the tables.

    ``predicate`` stands for all that readings of one event choose between. ``side``: whether the event is claimed, denied,
    or what was said of it corrected; a regulator's decision may be expected. ``listed``: whether the tables hold the subject. ``to_many``: whether the subject may do so to others in the same days. ``names``: whom
    else it names, ``assets``: tickers, ``venue``: where; all in lower case. ``words``: of its object. ``unit``: a currency, %,
    bp, coins, or other. ``stage``: planned only where the deed is another event than the plan. ``turns``: reversals and
    next steps that the words of its head tell (dropped, resumed, second);
    ``marked``: the tickers that its head marks as such, in lower case.
    """

    subject: str
    predicate: str
    side: Literal["claimed", "expected", "denied", "corrected"]
    listed: bool = False
    to_many: bool = False
    names: tuple[str, ...] = ()
    assets: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    venue: str = ""
    amount: float | None = None
    unit: str = ""
    turns: tuple[str, ...] = ()
    marked: tuple[str, ...] = ()
    stage: Literal["rumoured", "planned", "stated"] = "stated"


class Draft(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A judgement of one news item: what triage gives first and synthesis gives last. ``confidence`` is 0–1.

    ``entity`` is whom the claim is about (a company, exchange, regulator), None when it names nobody. ``summary`` is in the
    language of the news; ``summary_zh`` and ``summary_en`` are None where the prompt did not ask for them.
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
    summary_zh: str | None = None
    summary_en: str | None = None


class Adjustment(msgspec.Struct, frozen=True, kw_only=True):
    """One step from the preliminary to the final confidence: which rule, by how much, and why in words."""

    rule: str
    amount: float
    reason: str


class SignalEvidence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One page that the signal rests on. ``hash`` is over the text that was read.

    ``quote``: the words on the page that bear the stance, verbatim; None where nobody quoted it. ``figure`` and ``claimed``:
    the page's own amount and the news', as plain numbers; both None unless code compared them and they differ.
    ``speaker``: the party or authority whose word supports or denies, on its own page or as this one reports it; "" where
    the tables do not name it, None for a page that speaks for nobody. ``speaker_zh``: its Chinese name, where they have one.
    """

    url: str
    hash: str
    stance: ReadStance
    reference_number: int
    official: bool = False
    independent: bool = False
    published_at: datetime | None = None
    quote: str | None = None
    figure: float | None = None
    claimed: float | None = None
    speaker: str | None = None
    speaker_zh: str | None = None


class PromptUse(msgspec.Struct, frozen=True, kw_only=True):
    """Which version of which prompt took part."""

    name: str
    version: str
    hash: str


class Signal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=False):
    """One revision of a case's signal. Within a ``signal_id`` the highest ``revision`` counts.

    ``verdict`` and ``supporting_sources`` (supporting pages, once per owner) are None only in what schema 1 published,
    whose rules had no such words. ``unchecked_reason`` is set with the verdict ``unchecked``: ``preliminary`` (before any
    search), ``gate``, ``disabled``, ``not_planned``, ``budget``, ``language`` (the provider of the news' language did not
    answer), ``search_failed:<class>``, ``degraded:<class>``; None also where schema 1 published triage's judgement as the
    last one: its one word for that did not say why.
    ``summary_zh`` and ``summary_en`` are one sentence: the verdict, who says so, then the claim, told as a claim unless the
    verdict is confirmed or likely. ``summary`` is that of the news' language, the English one for any other. ``claim_zh`` and
    ``claim_en`` are the claim alone, "" where nobody stated it in that language, absent from what older code published:
    there the summaries are the claim, whatever the verdict, and None where nobody wrote them.
    ``direction`` is what the claim would mean if it were true, whatever the action.
    ``confidence`` is raw; ``confidence_calibrated`` is None until a calibration exists. ``venue`` is never defaulted.
    ``decided_at`` and ``valid_until`` are UTC; ``horizon`` is the number of seconds that ``timeframe`` stands for.
    ``provider_mode`` says offline or simulated plainly: such a signal is for trying and testing only.
    """

    schema_version: int
    signal_id: str
    revision: int
    supersedes: int | None
    stage: Stage
    verdict: Verdict | None
    unchecked_reason: str | None
    case_id: str
    summary: str
    summary_zh: str | None
    summary_en: str | None
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
    supporting_sources: int | None
    risk_flags: tuple[str, ...]
    adjustments: tuple[Adjustment, ...]
    prompt_versions: tuple[PromptUse, ...]
    model: str | None
    provider_mode: ProviderMode
    news_source: str
    language: str
    claim_zh: str | msgspec.UnsetType = msgspec.UNSET
    claim_en: str | msgspec.UnsetType = msgspec.UNSET

    def __str__(self) -> str:
        """Return what a bot's owner reads, on one line that no terminal obeys: the fields hold words of strangers."""
        said = (
            self.stage,
            self.verdict or "unknown",
            self.action,
            self.asset,
            f"{self.confidence:.2f}",
            self.summary,
            *self.links,
        )
        return printable_line(" ".join(said))
