"""Data from outside: search results, references, pages, memories, market values."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

Stance = Literal["supports", "denies", "hedges", "unrelated"]
"""A page's stance on the claim. A hedge (unconfirmed, rumour) is neither support nor denial."""
ReadStance = Literal["supports", "denies", "hedges", "earlier", "unrelated"]
"""A stance that a critic may read on a page. ``earlier``: the page reports an event of more than 30 days before."""
Slot = Literal["agrees", "differs", "silent"]
"""Treatment of one part of the claim on a page. ``silent``: it does not mention the part."""
PageSays = Literal["affirms", "denies", "hedges", "nothing"]
"""Report of the claim's event on a page. ``hedges``: as a rumour, or by unnamed people."""
Credibility = Literal["high", "medium", "low", "unknown"]
ProviderMode = Literal["live", "offline", "simulated"]


class SearchResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One search result as its provider returned it. ``score`` is the provider's relevance, 0–1. ``domain`` is the host."""

    title: str
    url: str
    domain: str
    snippet: str
    score: float
    published_at: datetime | None = None
    provider: str = ""
    content_complete: bool = True


class SearchReference(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One result that passed quality control, numbered for citation. Scores: relevance 0–1, quality 30–100.

    ``stance``: the word rules' stance of the whole page; a critic's reading is in ``EvidenceCritiqued``. By rules 1 a page
    supported by default. ``carries``: the page is about the claim, whatever its stance; None in records from before this
    field. ``passage``: the part around the claim's words (at most 1,200 characters) that a critic is shown and that quotes are
    checked against; ``snippet`` is the head (300). ``owner``: owner of the page.
    ``speaker``: the party or authority whose own domain or account this is. ``own_page``: another page of the claimant.
    ``timestamp``: time of the search.
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
    """A critic's reading of one reference, compared with the news' claim without its own hedge.

    ``quote`` is verbatim from the title or the passage, None for an unrelated page. ``cites``: the source that the page itself
    names. ``amount``: the page's figure compared with the claim's.

    From critique version 4 on, the critic returns ``says`` and the slots, and code derives ``stance`` from them. ``says`` is
    None in earlier records, whose critic returned ``stance``, ``same_subject`` and ``same_event``. ``place``: venue or chain.
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
    """The evidence so far by the word rules alone, for planning and for cases without a critic.

    ``denied``: a page denies the claim. ``conflict``: one page denies it and another page about the claim does not.
    ``stale``: every supporting page is older than 30 days. Sources are independent once per owner and per text;
    ``related_sources``: those about the claim; ``multi_source``: they reach the threshold.
    ``plain_*`` are plain counts, kept for comparison.
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
    """One similar past case. ``similarity`` is a cosine, -1–1; ``outcome`` is None while unknown.

    ``confidence`` is that of the signal's newest revision at the requested time. ``withdrawn``: this revision retracted or
    superseded the judgement, so the case is context and changes no confidence. ``verdict``: that of the same revision; None
    for a case judged by the first rules, which changes none either.
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
"""Tickers of coins pegged to the US dollar, whose price shows their deviation from the peg."""


class MarketValue(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One named number from a market source, as of ``observed_at``. The unit is in ``unit``."""

    name: str
    value: float
    unit: str
    source: str
    observed_at: datetime


class Observation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of a tool that is no evidence for the claim, but context.

    ``figures`` were computed by code; ``texts`` are words from outside. ``unavailable``: kind of the failure if the tool failed,
    which never counts as "nothing found".
    """

    tool: str
    query: str
    claim: str
    figures: dict[str, float] = {}
    texts: tuple[str, ...] = ()
    entries: tuple[MemoryEntry, ...] = ()
    unavailable: str | None = None


class Candle(msgspec.Struct, frozen=True, kw_only=True):
    """One bar. ``ended_at`` (UTC) is the time of its end; prices in the quote currency, ``volume`` in units of the asset."""

    ended_at: datetime
    open: float
    high: float
    low: float
    close: float
    volume: float


class FoundPage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A page of a signal: its :data:`ReadStance` on the claim, and its quote verbatim, if it has one."""

    url: str
    stance: str
    quote: str = ""
    official: bool = False


class FoundSignal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A signal of the news pipeline as of the requested time. ``number`` is its citation number in an answer, from 1.

    ``stage`` and ``verdict`` are those of :class:`schemas.signals.Signal`; ``stage`` is empty in replies that were
    recorded before there were stages. ``summary_zh`` and ``summary_en`` are empty if they were not written; ``pages``
    are those of its evidence, quoted and official ones first; ``matched``: the requested names that it contains.
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
    """A claim of an earlier brief, with its verdict and the addresses of its evidence."""

    claim: str
    verdict: str
    urls: tuple[str, ...] = ()


class PreviousBrief(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The brief of an earlier investigation of the subject, as of its own time (UTC)."""

    investigation_id: str
    as_of: datetime
    claims: tuple[PreviousClaim, ...] = ()
    urls: tuple[str, ...] = ()
