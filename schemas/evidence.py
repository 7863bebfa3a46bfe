"""What the world answers: search results, references, pages, memories, market values."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

Stance = Literal["supports", "denies", "hedges", "unrelated"]
"""What a page says of the claim. A hedge (unconfirmed, rumour) gives no support and is no denial."""
ReadStance = Literal["supports", "denies", "hedges", "earlier", "unrelated"]
"""What a critic may read on a page. ``earlier``: the same story, told of an event more than 30 days before."""
Slot = Literal["agrees", "differs", "silent"]
"""One part of the claim on a page. ``silent``: the page does not speak of it."""
PageSays = Literal["affirms", "denies", "hedges", "nothing"]
"""What a page says of the claim's event. A hedge is a rumour, or unnamed people."""
Credibility = Literal["high", "medium", "low", "unknown"]
ProviderMode = Literal["live", "offline", "simulated"]


class SearchResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One hit as its provider gave it. ``score`` is the provider's relevance, 0–1. ``domain`` is the host."""

    title: str
    url: str
    domain: str
    snippet: str
    score: float
    published_at: datetime | None = None
    provider: str = ""
    content_complete: bool = True


class SearchReference(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One kept result of quality control, numbered for citation. Scores: relevance 0–1, quality 30–100.

    ``stance``: what the word rules alone read on the whole page; a critic's reading is in ``EvidenceCritiqued``. By rules 1
    a page supported by default. ``carries``: whether the page is about the claim, whatever it says of it; None in records
    from before this was kept. ``passage``: the part around the claim's words (at most 1,200 characters) that a critic is
    shown and that quotes are checked against; ``snippet`` is the head (300). ``owner``: who stands behind the page.
    ``speaker``: the party or authority whose own domain or account this is. ``own_page``: another page of the claimant.
    ``timestamp``: when it was searched for.
    """

    reference_number: int
    source_tool: str
    title: str
    url: str
    snippet: str
    relevance_score: float
    quality_score: float
    content_complete: bool
    source_credibility: Credibility
    query: str
    published_at: datetime | None = None
    registrable_domain: str = ""
    independent: bool = False
    official: bool = False
    stance: Stance = "supports"
    carries: bool | None = None
    timestamp: datetime | None = None
    passage: str = ""
    owner: str = ""
    speaker: str | None = None
    own_page: bool = False


class PageStance(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a critic read on one reference, towards the news' sentence without its own hedge.

    ``quote`` is verbatim from the title or the passage, None for an unrelated page. ``cites`` is whom the page itself names
    as its source. ``amount``: the page's figure against the claim's.

    From critique version 4 on, the critic answers ``says`` and the slots, and code derives ``stance`` from them. ``says`` is
    None in records of before, whose critic gave ``stance``, ``same_subject`` and ``same_event``. ``place``: venue or chain.
    """

    reference_number: int
    stance: ReadStance
    quote: str | None = None
    reason: str = ""
    same_subject: bool = True
    same_event: bool = True
    amount: Slot = "silent"
    speaks_for: Literal["party", "authority", "other"] = "other"
    cites: str | None = None
    says: PageSays | None = None
    subject: Slot = "silent"
    act: Slot = "silent"
    stage: Slot = "silent"
    place: Slot = "silent"
    date: Slot = "silent"


class DroppedResult(msgspec.Struct, frozen=True, kw_only=True):
    """A result that was not used, and the rule that dropped it (such as future_evidence, spoofed_source)."""

    url: str
    title: str
    reason: str


class Sentiment(msgspec.Struct, frozen=True, kw_only=True):
    """Shares of the mood of the results; sum 1."""

    panic: float
    neutral: float
    optimistic: float


class Findings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the evidence so far amounts to by the word rules alone: for planning, and for want of a critic.

    ``denied``: a page says that the claim is false. ``conflict``: one denies and another is about the claim and does not.
    ``stale``: every page that supports is older than 30 days. Sources are independent once per owner and per text;
    ``related_sources`` are those about the claim, and ``multi_source`` says that they reach the threshold.
    ``plain_*`` are the figures of plain counting, kept beside the better ones so that both can be compared.
    """

    keyword: str
    references: tuple[SearchReference, ...]
    dropped: tuple[DroppedResult, ...]
    independent_sources: int
    multi_source: bool
    official_confirmed: bool
    denied: bool
    conflict: bool
    stale: bool
    sentiment: Sentiment
    source_count: int
    confidence: float
    triggered: bool
    risk_flags: tuple[str, ...] = ()
    plain_source_count: int = 0
    plain_official_confirmed: bool = False
    quality_controlled: bool = True
    precise_query: str = ""
    related_sources: int = 0


class Page(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Main text of one opened page. ``truncated`` when it was cut at 64 KiB; ``published_at`` where the page names it."""

    url: str
    title: str
    text: str
    truncated: bool = False
    published_at: datetime | None = None


class MemoryEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One similar past case. ``similarity`` is a cosine, -1–1; ``outcome`` is None where it is not known yet.

    ``confidence`` is that of the signal's newest revision at the time asked for; ``withdrawn`` says that this one took the
    judgement back: such a case is worth knowing of, and moves no confidence. ``verdict``: that of the same revision, None
    for a case that the rules of before judged, which moves none either.
    """

    case_id: str
    summary: str
    event_type: str
    asset: str
    confidence: float
    similarity: float
    decided_at: datetime
    outcome: str | None = None
    signal_id: str | None = None
    withdrawn: Literal["retracted", "superseded"] | None = None
    verdict: str | None = None


DOLLAR_PEGGED = frozenset(
    {"BUSD", "CRVUSD", "DAI", "FDUSD", "FRAX", "GHO", "GUSD", "LUSD", "MIM", "PYUSD", "RLUSD", "SUSD", "TUSD", "USD1",
     "USDC", "USDD", "USDE", "USDP", "USDS", "USDT", "UST", "USTC"}
)  # fmt: skip
"""Tickers of coins that are meant to be worth one US dollar: how far one is off its peg can be read from its price."""


class MarketValue(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One named number from a market source, as of ``observed_at``. The unit is in ``unit``."""

    name: str
    value: float
    unit: str
    source: str
    observed_at: datetime


class Observation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a tool answered that is no evidence for the claim, and is read beside it.

    ``figures`` were computed by code; ``texts`` are words from outside. ``unavailable``: the kind of the failure where the
    tool did not answer, which is never "nothing found".
    """

    tool: str
    query: str
    claim: str
    figures: dict[str, float] = {}
    texts: tuple[str, ...] = ()
    entries: tuple[MemoryEntry, ...] = ()
    unavailable: str | None = None


class Candle(msgspec.Struct, frozen=True, kw_only=True):
    """One bar. ``ended_at`` (UTC) is when it was complete; prices in the quote currency, ``volume`` in units of the asset."""

    ended_at: datetime
    open: float
    high: float
    low: float
    close: float
    volume: float


class FoundPage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a page says on a signal's claim: the :data:`ReadStance` read in it, and its words verbatim where they were quoted."""

    url: str
    stance: str
    quote: str = ""
    official: bool = False


class FoundSignal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A signal of the news pipeline, as it stood at the time asked for. ``number`` is what an answer cites it by, from 1.

    ``stage`` and ``verdict`` are those of :class:`schemas.signals.Signal`; ``stage`` is empty in replies that were
    recorded before there were stages. ``summary_zh`` and ``summary_en`` are empty where nobody wrote them; ``pages`` are
    those of its evidence, quoted and official ones first; ``matched`` are the things asked for by name that it names.
    """

    number: int
    case_id: str
    signal_id: str
    asset: str
    event_type: str
    action: str
    direction: str
    confidence: float
    stage: str = ""
    verdict: str | None = None
    summary: str
    decided_at: datetime
    risk_flags: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    provider_mode: str = ""
    summary_zh: str = ""
    summary_en: str = ""
    supporting_sources: int | None = None
    pages: tuple[FoundPage, ...] = ()
    matched: tuple[str, ...] = ()


class PreviousClaim(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A claim of an earlier brief: its verdict, and the addresses of the pages that it rested on."""

    claim: str
    verdict: str
    urls: tuple[str, ...] = ()


class PreviousBrief(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an earlier investigation of the subject found, as of its own time (UTC)."""

    investigation_id: str
    as_of: datetime
    claims: tuple[PreviousClaim, ...] = ()
    urls: tuple[str, ...] = ()
