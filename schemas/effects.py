"""Effects: the requests of a step to the outside world, as frozen values, and their replies.

``request_hash`` is the hash of an effect's canonical JSON. Recovery and backtests find a recorded reply by it, so nothing in
an effect may depend on the worker, the attempt or the clock. Text from outside travels as
:class:`Untrusted` parts; the adapter puts its random delimiters around them after the hash is taken.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import msgspec

from schemas.errors import FailureKind
from schemas.evidence import Candle, FoundSignal, MarketValue, MemoryEntry, Page, PreviousBrief, SearchResult
from schemas.ids import content_hash
from schemas.news import News
from schemas.signals import Draft, MessagePart, StatedClaim, Story, Verdict

Tier = Literal["light", "heavy"]
Thinking = Literal["off", "low", "medium", "high"]
"""Thinking level of a model before it replies; ``off``: the minimum. Adapters add the tokens for it."""


MOST_OUTPUT_TOKENS = 65_536
"""Maximum output tokens of a call: the limit of the largest models, far above the needs of our prompts."""


class Trusted(msgspec.Struct, frozen=True, tag="trusted"):
    """Our own words, such as a rendered prompt."""

    text: str


class Untrusted(msgspec.Struct, frozen=True, tag="untrusted"):
    """Words from outside: delimited by the adapter, never instructions. ``label`` names their origin."""

    label: str
    text: str


Part = Trusted | Untrusted


class FunctionDeclaration(msgspec.Struct, frozen=True):
    """One function that a model may call. ``parameters`` is a JSON Schema object."""

    name: str
    description: str
    parameters: dict[str, Any]


class CallModel(msgspec.Struct, frozen=True, kw_only=True, tag="call_model", omit_defaults=True):
    """One call of a model. With ``forced_function`` the reply is that function's call; with ``response_schema`` it is JSON.

    ``task`` names the routing entry (model, provider, fallback) of the settings; ``prompt_*`` name the versioned prompt.
    ``max_output_tokens`` bounds the reply alone. Tokens for ``thinking`` are added if a model counts both together.
    """

    task: str
    tier: Tier
    prompt_name: str
    prompt_version: str
    prompt_hash: str
    system: str
    parts: tuple[Part, ...]
    temperature: float = 0.0
    max_output_tokens: int = 1024
    thinking: Thinking = "off"
    functions: tuple[FunctionDeclaration, ...] = ()
    forced_function: str | None = None
    response_schema: dict[str, Any] | None = None


def widened(call: CallModel) -> CallModel | None:
    """Return the same call with twice the token limit, to repeat one whose reply was cut; None at the largest limit."""
    limit = min(2 * call.max_output_tokens, MOST_OUTPUT_TOKENS)
    return msgspec.structs.replace(call, max_output_tokens=limit) if limit > call.max_output_tokens else None


class Search(msgspec.Struct, frozen=True, kw_only=True, tag="search", omit_defaults=True):
    """One search at one provider. ``as_of`` limits an offline or archived search to what was known then.

    ``since``: only pages from then on are wanted. Results are filtered again, for providers without such a filter.
    ``topic``: ``news`` uses a provider's separate search of news, whose results are dated.
    ``source``: source of the news, whose own items a search among our listeners' items leaves out.
    ``look``: number of the second look, 0 for none. Cached results of an earlier look are not used.
    """

    provider: str
    query: str
    max_results: int
    as_of: datetime
    depth: str = "basic"
    include_domains: tuple[str, ...] = ()
    language: str = ""
    since: datetime | None = None
    topic: Literal["general", "news"] = "general"
    source: str = ""
    look: int = 0


class Scrape(msgspec.Struct, frozen=True, kw_only=True, tag="scrape"):
    """Open one page under the guard and return its main text."""

    url: str


class Recall(msgspec.Struct, frozen=True, kw_only=True, tag="recall", omit_defaults=True):
    """Find past cases like this one, decided before ``as_of``, the most similar first.

    A case about the same asset, or whose news hit one of ``keywords`` too, needs less likeness in words. With ``since``:
    the latest cases about the asset, or naming ``text`` in their summary, decided from then on, in the order of time.
    """

    text: str
    asset: str
    as_of: datetime
    limit: int
    exclude_case: str
    since: datetime | None = None
    keywords: tuple[str, ...] = ()


class FindEarlier(msgspec.Struct, frozen=True, kw_only=True, tag="find_earlier"):
    """Find the first case in the log with the same normalised text. Free, and exact across workers."""

    text_hash: str
    case_id: str


class FindConcerned(msgspec.Struct, frozen=True, kw_only=True, tag="find_concerned"):
    """Find the earlier claims that this case may deny or correct: triaged cases, knowable from ``since`` to ``as_of``.

    They are about one of ``assets`` and name one of ``names`` (in simplified characters and lower case). Free, from the journal.
    """

    case_id: str
    assets: tuple[str, ...]
    names: tuple[str, ...]
    as_of: datetime
    since: datetime


class FindStory(msgspec.Struct, frozen=True, kw_only=True, tag="find_story", omit_defaults=True):
    """Find the earlier reports of this triaged case's story in the log. Free, and exact across workers.

    ``hours``: maximum time between two cases of one story. ``again``: a repeated query for the present state of those
    reports, after the case has its own evidence; it waits for none of them.
    """

    case_id: str
    hours: float
    again: bool = False


class FetchMarket(msgspec.Struct, frozen=True, kw_only=True, tag="fetch_market"):
    """Read values of a market as of a time.

    ``economy``: policy rate, money, dollar index, ten-year yield; ``sentiment``: fear and greed; ``network``: activity on
    the asset's own chain. ``macro`` and ``onchain`` are the checks of the news pipeline.
    """

    kind: Literal["price", "macro", "onchain", "economy", "sentiment", "network"]
    asset: str
    as_of: datetime


class FetchCandles(msgspec.Struct, frozen=True, kw_only=True, tag="fetch_candles"):
    """Read the last ``limit`` bars of an asset that were complete at ``as_of``."""

    asset: str
    interval: Literal["1h", "4h", "1d"]
    limit: int
    as_of: datetime


class FindSignals(msgspec.Struct, frozen=True, kw_only=True, tag="find_signals", omit_defaults=True):
    """Find signals of the news pipeline about an asset ("" = any), decided from ``since`` to ``as_of``, the newest first.

    ``names``: names in the news or the summary, each with its spellings (``("Binance", "币安")``). With them, signals that
    contain any name are found, those with most names first, whatever their asset. ``verdicts``: only these; all if empty.
    """

    asset: str
    since: datetime
    as_of: datetime
    limit: int
    # Left out of the request's hash while empty, so that requests recorded before they existed keep theirs.
    names: tuple[tuple[str, ...], ...] = ()
    verdicts: tuple[str, ...] = ()


class FindBrief(msgspec.Struct, frozen=True, kw_only=True, tag="find_brief", omit_defaults=True):
    """Find the newest brief of a subject (by its key, in one language) as of ``as_of`` or earlier.

    ``investigation``: find the brief of this investigation instead, whatever its subject.
    """

    subject: str
    language: str
    as_of: datetime
    exclude_case: str
    investigation: str | None = None


class PublishNews(msgspec.Struct, frozen=True, kw_only=True, tag="publish_news"):
    """Publish a news item, as a listener does. Repeating it is harmless: the item's ids follow from its content."""

    news: News


class OpenPart(msgspec.Struct, frozen=True, kw_only=True, tag="open_part"):
    """Open the case of one further claim of a message. Repeating it is harmless: the journal opens it once."""

    news: News
    part: MessagePart
    config_hash: str
    text_hash: str
    language: str
    authenticated: bool


Effect = (
    CallModel
    | Search
    | Scrape
    | Recall
    | FindEarlier
    | FindConcerned
    | FindStory
    | FetchMarket
    | FetchCandles
    | FindSignals
    | FindBrief
    | PublishNews
    | OpenPart
)


def request_hash(effect: Effect) -> str:
    """Return 32 hex digits that identify the request: equal effects, and only those, have equal hashes."""
    return content_hash(effect)


class Failure(msgspec.Struct, frozen=True, kw_only=True, tag="failure", omit_defaults=True):
    """A failed effect, as a value. ``retryable`` and ``retry_after_s`` are the provider's statement, not a guess."""

    kind: FailureKind
    message: str
    retryable: bool
    retry_after_s: float | None = None
    status: int | None = None


class FunctionCall(msgspec.Struct, frozen=True):
    """One function call requested by a model. ``args`` are unchecked."""

    name: str
    args: dict[str, Any]


class ModelReply(msgspec.Struct, frozen=True, kw_only=True, tag="model", omit_defaults=True):
    """The reply of a model. ``data`` is the parsed JSON of a structured reply, unchecked against its schema."""

    text: str = ""
    data: Any = None
    function_calls: tuple[FunctionCall, ...] = ()
    finish_reason: str = "stop"
    repaired: bool = False


class SearchReply(msgspec.Struct, frozen=True, kw_only=True, tag="search", omit_defaults=True):
    """Results of one provider, best first. Empty: it searched and found nothing. ``truncated``: texts were cut."""

    provider: str
    query: str
    results: tuple[SearchResult, ...]
    cached: bool = False
    truncated: bool = False


class PageReply(msgspec.Struct, frozen=True, kw_only=True, tag="page"):
    """One opened page."""

    page: Page


class TextEmbedding(msgspec.Struct, frozen=True, kw_only=True):
    """A text's vector, made by a provider: ``vector`` holds whole numbers from -127 to 127, a byte each.

    ``model`` names provider, model and dimensions; ``text_hash`` is :func:`schemas.ids.content_hash` of the text.
    """

    model: str
    text_hash: str
    vector: bytes


class RecallReply(msgspec.Struct, frozen=True, kw_only=True, tag="recall", omit_defaults=True):
    """Similar past cases, most similar first; empty means no match.

    ``embedding`` is the paid vector of the case's text, under which memory will store the case (ADR 17).
    """

    entries: tuple[MemoryEntry, ...]
    embedding: TextEmbedding | None = None


class EarlierReply(msgspec.Struct, frozen=True, kw_only=True, tag="earlier"):
    """The first case with the same text; None when this case is the first."""

    first_case: str | None


class EarlierClaim(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The claim of an earlier case. ``text`` is the head of its news; ``as_of`` (UTC) is the case's own time."""

    case_id: str
    asset: str
    event_type: str
    language: str
    text: str
    as_of: datetime
    entity: str | None = None


class ConcernedReply(msgspec.Struct, frozen=True, kw_only=True, tag="concerned", omit_defaults=True):
    """Earlier claims, newest first. ``unread``: cases that were not triaged in time, and ``left_off``: those beyond the limit."""

    claims: tuple[EarlierClaim, ...]
    unread: int = 0
    left_off: int = 0


class StoryReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One news item of a story, with the head of its text.

    ``url``: its address, if it came from a listed source that is read at an address of the same owner. Else None: a writer of
    news must not borrow another's name. ``group``: owner of the source. ``draft``, ``claim`` and ``story``: triage's reading.
    ``verdict``: that of its own signal in the log; None without one. ``joined``: it joined another report's signal.
    """

    case_id: str
    source: str
    language: str
    text: str
    published_at: datetime
    url: str | None = None
    group: str = ""
    draft: Draft | None = None
    claim: StatedClaim | None = None
    story: Story | None = None
    verdict: Verdict | None = None
    joined: bool = False


class StoryReply(msgspec.Struct, frozen=True, kw_only=True, tag="story", omit_defaults=True):
    """The story's earlier reports; empty if this case is the first. ``own``: this case's own report.

    Reports with their own analysis come first (confirmed and likely ones before the others), then the newest.
    """

    tellings: tuple[StoryReport, ...] = ()
    own: StoryReport | None = None


class MarketReply(msgspec.Struct, frozen=True, kw_only=True, tag="market", omit_defaults=True):
    """Market values by name. ``unknown``: what the sources do not know, and sources that failed."""

    values: tuple[MarketValue, ...]
    unknown: tuple[str, ...] = ()


class CandlesReply(msgspec.Struct, frozen=True, kw_only=True, tag="candles"):
    """Complete bars, oldest first. ``unit`` is the unit of prices, ``interval`` as requested."""

    candles: tuple[Candle, ...]
    source: str
    unit: str
    interval: str


class SignalsReply(msgspec.Struct, frozen=True, kw_only=True, tag="signals"):
    """Signals of the news pipeline, numbered from 1; empty if there are none."""

    signals: tuple[FoundSignal, ...]


class BriefReply(msgspec.Struct, frozen=True, kw_only=True, tag="brief"):
    """An earlier brief, or None."""

    brief: PreviousBrief | None


class PublishedReply(msgspec.Struct, frozen=True, kw_only=True, tag="published"):
    """The item, or the opening, is on the log; ``case_id`` is the case that it opens."""

    case_id: str


Reply = (
    ModelReply
    | SearchReply
    | PageReply
    | RecallReply
    | EarlierReply
    | ConcernedReply
    | StoryReply
    | MarketReply
    | CandlesReply
    | SignalsReply
    | BriefReply
    | PublishedReply
    | Failure
)
