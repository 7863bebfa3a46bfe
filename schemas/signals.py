"""Signals: the public output contract of the ``signals`` topic, and the draft that a case works on."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from schemas.calibration import SignalCalibration
from schemas.evidence import ProviderMode, ReadStance
from schemas.ids import part_id
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
"""Stage of a revision. ``preliminary``: triage's first judgement, before any search. ``final``: the case has ended.
``superseded`` and ``retracted``: later news corrected or denied it, or the case ended without a signal."""
Verdict = Literal["confirmed", "likely", "unconfirmed", "stale", "disputed", "refuted", "unchecked"]
"""Result of the check of a claim; docs/verification.md defines each word. ``unchecked``: nothing was checked, and
``unchecked_reason`` says why."""
ACTED_ON = frozenset[Verdict]({"confirmed", "likely"})
"""Verdicts that keep an order; any other verdict ends as ``observe``."""
WITHDRAWN = frozenset[Stage]({"retracted", "superseded"})
"""Stages that withdraw a judgement."""
SECOND_LOOK = "second_look"
"""Rule of the last adjustment in a signal of a second look, which is the next revision of its first case's signal."""
EXPIRED = "expired"
"""Risk flag of an order that had expired when it was decided: its news was published longer ago than its horizon."""
BELOW_SELLING_RULE = "below_selling_rule"
"""Risk flag of an order that the selling rule removed: too many claims with so little confidence were false."""
NO_ASSET = "UNKNOWN"
"""The ``asset`` of a signal without an asset."""
Modality = Literal["asserted", "planned", "rumoured", "denied", "corrected"]
"""Modality of the news' claim."""
Attribution = Literal["named", "unnamed", "none"]
"""Source that the news names: a name, unnamed people such as “insiders”, or none."""


class ClaimAmount(msgspec.Struct, frozen=True, kw_only=True):
    """A figure of a claim as one plain number. ``unit`` as triage wrote it: a currency, a ticker, a percent sign."""

    value: float
    unit: str = ""


class StatedClaim(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The claim of one news item, as read by triage. ``subject`` acts or is acted on; ``asset`` and ``venue`` as written.

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
    """The event that one news item reports, in parts that other reports share: names are resolved by the tables.

    ``predicate`` is one word for all interchangeable predicates. ``side``: the event is claimed, denied or corrected, or (a
    regulator's decision) expected. ``listed``: the tables contain the subject. ``to_many``: the subject may do the same to
    others in the same days. ``names``: other names, ``assets``: tickers, ``venue``; all in lower case. ``words``: those of its
    object. ``unit``: a currency, %, bp, coins, or other. ``stage``: planned only if plan and act are two events. ``turns``:
    reversals and next steps in its head (dropped, resumed, second); ``marked``: tickers marked in its head, in lower case.
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
    """A draft of a signal, first by triage and last by synthesis. ``confidence`` is 0–1.

    ``entity`` is the party of the claim (a company, exchange, regulator), None without one. ``summary`` is in the language of
    the news; ``summary_zh`` and ``summary_en`` are None if the prompt did not request them.
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


class MessagePart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One of several claims that a message makes, each about another asset.

    ``assets``: those of all these claims, the first case's before the others. ``left_out``: assets beyond the limit, which
    have no claim. ``text``: the message with ``asset`` instead of the list that names them all.

    ``draft`` and ``claim``: what the first case's triage says of this claim, where another case opens with it; there,
    ``injection_suspected`` is the first case's, too.
    """

    first_case: str
    asset: str
    assets: tuple[str, ...]
    text: str
    left_out: tuple[str, ...] = ()
    draft: Draft | None = None
    claim: StatedClaim | None = None
    injection_suspected: bool = False

    @property
    def cases(self) -> dict[str, str]:
        """Return asset → id of the case about it, for every claim of the message."""
        first, *others = self.assets
        return {first: self.first_case, **{asset: part_id(self.first_case, asset) for asset in others}}


class Adjustment(msgspec.Struct, frozen=True, kw_only=True):
    """One step from the preliminary to the final confidence: its rule, amount, and reason in words."""

    rule: str
    amount: float
    reason: str


class SignalEvidence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One page of a signal's evidence. ``hash`` is over the text that was read.

    ``quote``: the words on the page for the stance, verbatim; None without a quote. ``figure`` and ``claimed``: the page's own
    amount and the news', as plain numbers; both None unless code compared them and they differ.
    ``speaker``: the party or authority that supports or denies, on its own page or as reported; "" if the tables do not name
    it, None for a page without a speaker. ``speaker_zh``: its Chinese name, if it has one.
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
    """The version of a prompt that was used."""

    name: str
    version: str
    hash: str


class Signal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=False):
    """One revision of a case's signal. Within a ``signal_id`` the highest ``revision`` counts.

    ``verdict`` and ``supporting_sources`` (supporting pages, once per owner) are None only in signals of schema 1, whose rules
    had no such words. ``unchecked_reason`` is set with the verdict ``unchecked``: ``preliminary`` (before any
    search), ``gate``, ``disabled``, ``not_planned``, ``budget``, ``language`` (the provider of the news' language did not
    reply), ``search_failed:<class>``, ``degraded:<class>``; None also if schema 1 published triage's judgement as final, with
    one word that did not say why.
    ``summary_zh`` and ``summary_en`` are one sentence: the verdict, who says so, then the claim, reported as a claim unless the
    verdict is confirmed or likely. ``summary`` is that of the news' language, the English one for any other. ``claim_zh`` and
    ``claim_en`` are the claim alone, "" in a language in which it was not stated. They are absent from signals of older code,
    whose summaries are the claim, whatever the verdict, and None if they were not written.
    ``direction`` is the meaning of the claim if it is true, whatever the action.
    ``confidence`` is raw; ``confidence_calibrated`` is the probability that the price moves over 10 bp in the signal's
    direction within its horizon, as ``calibration`` explains it. Both are None without a fitted curve of that horizon (always
    offline and simulated), without a direction or an asset, in a preliminary revision, and in one that another case caused,
    because the map is fitted on first final confidences. ``calibration`` is absent from signals of older code.
    ``venue`` is never defaulted.
    ``decided_at`` and ``valid_until`` are UTC; ``horizon`` is ``timeframe`` in seconds. ``valid_until`` counts from
    ``published_at``: follow no order after it. One that had expired when it was decided has the risk flag ``expired``. A signal with ``provider_mode`` offline
    or simulated is for trying and testing only.
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
    calibration: SignalCalibration | msgspec.UnsetType | None = msgspec.UNSET

    def __str__(self) -> str:
        """Return the signal on one line, safe for a terminal: its fields contain text from outside."""
        parts = (
            self.stage,
            self.verdict or "unknown",
            self.action,
            self.asset,
            f"{self.confidence:.2f}",
            self.summary,
            *self.links,
        )
        return printable_line(" ".join(parts))
