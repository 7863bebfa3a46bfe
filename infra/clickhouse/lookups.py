"""Lookups in ClickHouse as of a time: signals for the research chat, and the brief that an investigation continues from.

A chat never waits long for ClickHouse. Any failure of ClickHouse becomes a ``Failure`` of kind ``unavailable`` within
five seconds. The chat's requests for market data at the same time may take ten.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, TypeVar

import msgspec

from infra.clickhouse.client import ClickHouse
from infra.clickhouse.record import epoch_ms
from infra.ports import Answer, Free
from schemas.calls import ProviderMode
from schemas.effects import BriefReply, Failure, FindBrief, FindSignals, SignalsReply
from schemas.errors import NewsproofError, TransientError
from schemas.evidence import FoundPage, FoundSignal, PreviousBrief, PreviousClaim
from schemas.ids import LIVE_RUN, RESEARCH_RUN
from schemas.research_events import BriefWritten

_Found = TypeVar("_Found")


class Turns:
    """Runs at most ``at_once`` queries at a time. Safe for concurrent use within one event loop."""

    def __init__(self, at_once: int, *, timeout_s: float) -> None:
        """``timeout_s`` bounds each query, not counting its time in the queue."""
        self.timeout_s = timeout_s
        self._places = asyncio.Semaphore(at_once)
        self._failed_at = float("-inf")
        self._failure = _unavailable("", retryable=True)

    async def ask(self, work: Callable[[], Awaitable[_Found]]) -> _Found | Failure:
        """Run ``work`` when a place is free; return its result, or a failure of kind unavailable."""
        now = asyncio.get_running_loop().time
        asked_at = now()
        async with self._places:
            if self._failed_at >= asked_at:
                # A query failed while this one was queued: trying again would take another second.
                return self._failure
            try:
                async with asyncio.timeout(self.timeout_s):
                    return await work()
            except TimeoutError:
                why = f"ClickHouse did not respond within {self.timeout_s:g} s: check that it runs, and its load"
                self._failure = _unavailable(why, retryable=True)
            except NewsproofError as exc:
                self._failure = _unavailable(str(exc), retryable=isinstance(exc, TransientError))
            self._failed_at = now()
            return self._failure


def _unavailable(message: str, *, retryable: bool) -> Failure:
    return Failure(kind="unavailable", message=message, retryable=retryable)


TIMEOUT_S = 5.0
"""Timeout in seconds of both queries together.

Measured over 200,000 signals on two cores at a load of 11: 0.03 s for an asset's signals (at most 0.5 s), 0.6 s for
names (at most 1.0 s), and 2.3 s if four requests search for names at once. The timeout is long enough for a busy first
minute.
"""
AT_ONCE = 4
"""Maximum number of concurrent requests. More would only time out together, so a burst queues here instead."""
MAX_SIGNALS = 50
"""Maximum number of signals, whatever the effect's own limit."""
MAX_SOURCES = 5
MAX_PAGES = 5
MAX_QUOTE_CHARACTERS = 400
MAX_NAMES = 8
SHORT_NAME = 3
"""A Latin name of at most this many characters must be a whole word; a longer one may begin one ("hack", "hacked")."""
_TOLD = ("supports", "denies", "hedges", "earlier")
"""The stances of the pages that a signal lists, in this order."""

REVISIONS = 4
"""Rows read per requested signal, because a signal may have several revisions or redelivered rows. If they contain too
few signals, the query is repeated with ten times as many.
"""

_KNOWN = """
FROM signals
WHERE run_id = {run_id:String}
  AND decided_at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
  AND decided_at < fromUnixTimestamp64Milli({as_of_ms:Int64}, 'UTC')
  AND emitted_at < fromUnixTimestamp64Milli({as_of_ms:Int64}, 'UTC')
  AND (empty({verdicts:Array(String)}) OR has({verdicts:Array(String)}, verdict))
"""
# ClickHouse does not read months before `since`: the table is partitioned by decided_at.

_NEWEST = f"""
SELECT signal_id, [] AS matched
{_KNOWN}
  AND ({{asset:String}} = '' OR upper(asset) = {{asset:String}})
ORDER BY decided_at DESC, signal_id
LIMIT {{rows:UInt32}}
"""
# The newest rows, not the newest signals: ClickHouse finds the newest rows with a heap, while grouping by signal would
# hold all of them in memory.

_NEAR = "multiSearchAnyCaseInsensitive(words, {spellings:Array(String)})"

_NEWS = """FROM news
WHERE NEAR AND run_id = {run_id:String} AND opened_at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC') - INTERVAL 1 DAY"""

_NAMING = f"""
SELECT signal_id, matched
FROM
(
    SELECT s.signal_id AS signal_id, s.decided_at AS decided_at, upper(s.asset) IN {{tickers:Array(String)}} AS about,
           arrayFilter(i -> s.hits[i] OR n.hits[i], range(1, {{count:UInt32}} + 1)) AS matched
    FROM
    (
        SELECT signal_id, case_id, decided_at, asset, [HITS] AS hits FROM
        (SELECT signal_id, case_id, decided_at, asset, concat(asset, ' ', asset_name, ' ', summary, ' ', summary_zh, ' ', summary_en) AS words
         {_KNOWN} AND (NEAR OR case_id IN (SELECT case_id FROM (SELECT case_id, text AS words {_NEWS}))))
    ) AS s
    LEFT JOIN (SELECT case_id, [HITS] AS hits FROM (SELECT case_id, text AS words {_NEWS})) AS n ON n.case_id = s.case_id
)
WHERE notEmpty(matched)
ORDER BY length(matched) DESC, about DESC, decided_at DESC, signal_id
LIMIT {{rows:UInt32}}
"""
# A case is opened before it is decided, by more than a day only if its news waited that long. NEAR searches for all
# spellings at once: it is much faster than the patterns, which are then applied to few texts.

_SAID = f"""
SELECT signal_id, case_id, asset, event_type, action, direction, confidence, stage, verdict, summary, summary_zh, summary_en,
       supporting_sources, decided_at, risk_flags, evidence, links, provider_mode
{_KNOWN.replace("{verdicts:Array(String)}", "[]::Array(String)")}
  AND signal_id IN {{signals:Array(String)}}
ORDER BY revision DESC, first_wins DESC
LIMIT 1 BY signal_id
"""


class SignalLookup(Free):
    """Port for ``FindSignals``. Free of charge. ``mode`` is the provider mode of the installation it reads from.

    For each signal it returns the newest revision emitted strictly before ``as_of``. The signals were decided within
    the requested time. They are sorted newest first; with names, by the number of names that they contain. There are at
    most ``limit``, numbered from 1. Retracted signals are included, marked by ``stage``.
    """

    provider = "clickhouse"

    def __init__(self, client: ClickHouse, *, mode: ProviderMode = "offline", timeout_s: float = TIMEOUT_S) -> None:
        self.mode: ProviderMode = mode
        self._client = client
        self._turns = Turns(AT_ONCE, timeout_s=timeout_s)
        self._naming = Turns(AT_ONCE, timeout_s=timeout_s)

    async def perform(self, effect: FindSignals) -> Answer:
        """Return the signals, or a ``Failure`` of kind ``unavailable``. Raises no ``NewsproofError``."""
        signals = await (self._naming if effect.names else self._turns).ask(lambda: self._find(effect))
        reply = signals if isinstance(signals, Failure) else SignalsReply(signals=signals)
        return Answer(reply=reply, cost_usd=Decimal(0), cost_source="local")

    async def close(self) -> None:
        await self._client.close()

    async def _find(self, effect: FindSignals) -> tuple[FoundSignal, ...]:
        limit = min(effect.limit, MAX_SIGNALS)
        if limit < 1:
            return ()
        asked: dict[str, Any] = {
            "run_id": LIVE_RUN,
            "since_ms": epoch_ms(effect.since),
            "as_of_ms": epoch_ms(effect.as_of),
            "asset": effect.asset.strip().upper().lstrip("$"),
            "verdicts": list(effect.verdicts),
        }
        names = effect.names[:MAX_NAMES]
        patterns = {f"name{n}": _pattern(spellings) for n, spellings in enumerate(names)}
        hits = ", ".join(f"match(words, {{{key}:String}})" for key in patterns)
        asking = _NAMING.replace("HITS", hits).replace("NEAR", _NEAR) if names else _NEWEST
        spellings = [spelling for spelled in names for spelling in spelled]
        wanted = {"count": len(names), "spellings": spellings, "tickers": _tickers(names)}
        matches = await self._candidates(asking, {**asked, **patterns, **wanted}, limit)
        if not matches:
            return ()
        rows = (await self._client.query(_SAID, {**asked, "signals": list(matches)})).dicts()
        rows = [row for row in rows if not effect.verdicts or row["verdict"] in effect.verdicts]
        rows = _about(rows, names, matches) if names else rows
        rows.sort(key=lambda row: row["signal_id"])
        rows.sort(key=lambda row: (len(matches[row["signal_id"]]), row["decided_at"]), reverse=True)
        matched = {signal: tuple(names[i - 1][0] for i in held) for signal, held in matches.items()}
        return tuple(_signal(number, row, matched[row["signal_id"]]) for number, row in enumerate(rows, start=1))

    async def _candidates(self, asking: str, asked: dict[str, Any], limit: int) -> dict[str, list[int]]:
        rows = limit * REVISIONS
        while True:
            rows_matched = (await self._client.query(asking, {**asked, "rows": rows})).rows
            signals: dict[str, list[int]] = {}
            for signal_id, matched in rows_matched:
                signals.setdefault(signal_id, matched)
            if len(signals) >= limit or len(rows_matched) < rows:
                return dict(list(signals.items())[:limit])
            rows *= 10


def _about(
    rows: list[dict[str, Any]], names: tuple[tuple[str, ...], ...], matches: dict[str, list[int]]
) -> list[dict[str, Any]]:
    """Return the rows without those that merely name an asset which others are about."""
    named = {row["signal_id"]: _named_assets(row["asset"], names) for row in rows}
    known = frozenset[int]().union(*named.values())
    return [row for row in rows if named[row["signal_id"]] or not known.issuperset(matches[row["signal_id"]])]


def _named_assets(asset: str, names: tuple[tuple[str, ...], ...]) -> frozenset[int]:
    return frozenset(n for n, spelled in enumerate(names, 1) if asset.upper() in _tickers((spelled,)))


def _tickers(names: tuple[tuple[str, ...], ...]) -> list[str]:
    return [spelling.upper().lstrip("$") for spelled in names for spelling in spelled]


def _pattern(spellings: tuple[str, ...]) -> str:
    return "(?i)" + "|".join(map(_spelled, spellings))


def _spelled(name: str) -> str:
    # The pattern has no backslash, because ClickHouse unescapes parameters: "." replaces each sign of a name that is
    # neither a letter nor a digit.
    plain = re.sub(r"\W", ".", name)
    if not name.isascii():
        return plain
    return f"(^|[^a-z0-9]){plain}" + ("([^a-z0-9]|$)" if len(name) <= SHORT_NAME else "")


def _signal(number: int, row: dict[str, Any], matched: tuple[str, ...]) -> FoundSignal:
    urls = dict.fromkeys(url for url in (*(e["url"] for e in row["evidence"]), *row["links"]) if url)
    decided: datetime = row["decided_at"]
    return FoundSignal(
        number=number,
        case_id=row["case_id"],
        signal_id=row["signal_id"],
        asset=row["asset"],
        event_type=row["event_type"],
        action=row["action"],
        direction=row["direction"],
        confidence=row["confidence"],
        stage=row["stage"],
        verdict=row["verdict"] or None,
        summary=row["summary"],
        decided_at=decided if decided.tzinfo else decided.replace(tzinfo=UTC),
        risk_flags=tuple(row["risk_flags"]),
        sources=tuple(urls)[:MAX_SOURCES],
        provider_mode=row["provider_mode"],
        summary_zh=row["summary_zh"],
        summary_en=row["summary_en"],
        supporting_sources=row["supporting_sources"],
        pages=_pages(row["evidence"]),
        matched=matched,
    )


def _pages(evidence: list[dict[str, Any]]) -> tuple[FoundPage, ...]:
    quoted_pages = [e for e in evidence if e["stance"] in _TOLD]
    quoted_pages.sort(key=lambda e: (not e["quote"], not e["official"], _TOLD.index(e["stance"])))
    return tuple(
        FoundPage(
            url=e["url"],
            stance=e["stance"],
            quote=(e["quote"] or "")[:MAX_QUOTE_CHARACTERS],
            official=bool(e["official"]),
        )
        for e in quoted_pages[:MAX_PAGES]
    )


# The newest brief of a subject. An outage of ClickHouse becomes a ``Failure`` of kind ``unavailable``; the
# investigation reports it and continues. The tables keep briefs for 90 days.

WITHIN_S = 10.0
"""Timeout in seconds. An investigation takes minutes, and this one response decides what counts as new in it."""
_NEWEST_BRIEF = """
SELECT case_id, payload
FROM events
WHERE run_id = {run_id:String} AND event_type = 'newsproof.brief_written' AND case_id != {exclude:String}
  AND if({wanted:String} != '', case_id = {wanted:String},
         JSONExtractString(payload, 'subject_key') = {subject:String}
         AND JSONExtractString(payload, 'language') = {language:String}
         AND parseDateTime64BestEffortOrZero(JSONExtractString(payload, 'as_of'), 3, 'UTC')
             <= fromUnixTimestamp64Milli({as_of_ms:Int64}, 'UTC'))
ORDER BY parseDateTime64BestEffortOrZero(JSONExtractString(payload, 'as_of'), 3, 'UTC') DESC, event_time DESC
LIMIT 1
"""


class BriefLookup(Free):
    """Port for ``FindBrief``. Free of charge. ``mode`` is the provider mode of the installation it reads from."""

    provider = "clickhouse"

    def __init__(self, client: ClickHouse, *, mode: ProviderMode = "offline") -> None:
        self.mode: ProviderMode = mode
        self._client = client
        self._turns = Turns(2, timeout_s=WITHIN_S)

    async def perform(self, effect: FindBrief) -> Answer:
        """Return the brief, or a ``Failure`` of kind ``unavailable``. Raises no ``NewsproofError``."""
        briefs = await self._turns.ask(lambda: self._find(effect))
        reply = briefs if isinstance(briefs, Failure) else BriefReply(brief=briefs[0] if briefs else None)
        return Answer(reply=reply, cost_usd=Decimal(0), cost_source="local")

    async def close(self) -> None:
        await self._client.close()

    async def _find(self, effect: FindBrief) -> tuple[PreviousBrief, ...]:
        asked = {
            "run_id": RESEARCH_RUN,
            "exclude": effect.exclude_case,
            "wanted": effect.investigation or "",
            "subject": effect.subject,
            "language": effect.language,
            "as_of_ms": epoch_ms(effect.as_of),
        }
        rows = (await self._client.query(_NEWEST_BRIEF, asked)).rows
        return tuple(_previous(case_id, msgspec.json.decode(payload, type=BriefWritten)) for case_id, payload in rows)


def _previous(case_id: str, brief: BriefWritten) -> PreviousBrief:
    urls = {r.number: r.url for r in brief.references}
    return PreviousBrief(
        investigation_id=case_id,
        as_of=brief.as_of,
        claims=tuple(
            PreviousClaim(
                claim=c.claim, verdict=c.verdict, urls=tuple(urls[e.number] for e in c.evidence if e.number in urls)
            )
            for c in brief.claims
        ),
        urls=tuple(urls.values()),
    )
