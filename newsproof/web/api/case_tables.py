"""ClickHouse queries on cases: a page of the list, a case's offsets in the log, the revisions of its signal.

They run as the read-only analyst user. Every caller can continue without ClickHouse.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from infra.clickhouse.client import ClickHouse
from schemas import envelope as wire
from schemas.errors import ContractError
from schemas.events import OPENING_NAME, TERMINAL_NAMES, WIRE_NAMES, CaseTriaged
from schemas.ids import LIVE_RUN
from schemas.signals import WITHDRAWN
from streams.feed.case_items import FeedCase, FeedFilter

_SHOWN_TYPES = (OPENING_NAME, WIRE_NAMES[CaseTriaged], *sorted(TERMINAL_NAMES))

_DIGITS = 14
"""Maximum digits of a time in milliseconds; ClickHouse's times end in the year 2299."""


class Before(msgspec.Struct, frozen=True):
    """Cursor of the list of cases: the opening time (milliseconds since 1970) and id of the last case shown."""

    ms: int
    case_id: str

    def __str__(self) -> str:
        return base64.urlsafe_b64encode(f"{self.ms}:{self.case_id}".encode()).decode().rstrip("=")

    @classmethod
    def read(cls, text: str) -> Before:
        """Parse the ``next`` of a page.

        Raises:
            ContractError: it is not a cursor of this list.
        """
        try:
            ms, _, case_id = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode().partition(":")
            if not (ms.isascii() and ms.isdigit() and len(ms) <= _DIGITS):
                raise ValueError
            return cls(int(ms), case_id)
        except (ValueError, binascii.Error) as exc:
            raise ContractError(
                "`before` does not belong to this list: take it from `next` of the previous page", reason="bad_page"
            ) from exc

    @classmethod
    def of(cls, case: FeedCase) -> Before:
        return cls(int(case.received_at.timestamp() * 1000), case.case_id)

    def hides(self, case: FeedCase) -> bool:
        """Return whether a case is at or before this cursor in the list, which is newest first."""
        at = Before.of(case)
        return (at.ms, at.case_id) >= (self.ms, self.case_id)


async def cases_page(tables: ClickHouse, wanted: FeedFilter, *, limit: int, before: Before | None) -> list[FeedCase]:
    """Return summaries of cases, newest opening first.

    Raises:
        TransientError: ClickHouse is unavailable or overloaded.
    """
    where, asked = _conditions(wanted, before)
    sql = (
        "SELECT case_id FROM events WHERE run_id = {run:String} AND event_type = {opening:String}"
        f"{''.join(' AND ' + condition for condition in where)} ORDER BY event_time DESC, case_id DESC LIMIT 1 BY case_id LIMIT {{n:UInt32}}"
    )
    asked |= {"run": LIVE_RUN, "opening": OPENING_NAME, "n": limit, "ends": sorted(TERMINAL_NAMES)}
    result = await tables.query(sql, asked)
    return await _items(tables, [str(row[0]) for row in result.rows])


async def cases_called(tables: ClickHouse, wanted: str) -> list[FeedCase]:
    """Return the latest cases, at most 20, whose id starts with ``wanted`` or whose news has that external id.

    Raises:
        TransientError: ClickHouse is unavailable.
    """
    sql = """SELECT case_id, JSONExtractString(payload, 'news', 'external_id') AS known,
       JSONExtractString(payload, 'news', 'source') AS source FROM events
WHERE run_id = {run:String} AND event_type = {opening:String}
  AND (startsWith(case_id, lower({wanted:String})) OR {wanted:String} IN (known, concat(source, ':', known)))
ORDER BY event_time DESC LIMIT 1 BY case_id LIMIT 20"""
    result = await tables.query(sql, {"run": LIVE_RUN, "opening": OPENING_NAME, "wanted": wanted})
    return await _items(tables, [str(row[0]) for row in result.rows])


def _conditions(wanted: FeedFilter, before: Before | None) -> tuple[list[str], dict[str, Any]]:
    where, asked = [], dict[str, Any]()
    if before is not None:
        where.append("(event_time, case_id) < (fromUnixTimestamp64Milli({ms:Int64}, 'UTC'), {case:String})")
        asked |= {"ms": before.ms, "case": before.case_id}
    ended = "case_id IN (SELECT case_id FROM events WHERE run_id = {run:String} AND event_type IN {ends:Array(String)})"
    if wanted.state:
        where.append(ended if wanted.state == "ended" else ended.replace(" IN (SELECT", " NOT IN (SELECT", 1))
    for column, value in (("asset", wanted.assets), ("event_type", [wanted.event_type.casefold()])):
        if any(value):
            of = f"SELECT case_id FROM signals WHERE run_id = {{run:String}} AND lower({column}) IN {{{column}:Array(String)}}"
            where.append(f"case_id IN ({of})")
            asked[column] = value
    if wanted.text:
        text = "JSONExtractString(payload, 'news', 'text')"
        named = "JSONExtractString(payload, 'news', 'source'), ' ', JSONExtractString(payload, 'news', 'external_id')"
        where.append(
            f"(positionCaseInsensitiveUTF8(concat({text}, ' ', {named}), {{text:String}}) > 0 "
            "OR startsWith(case_id, {text:String}))"
        )
        asked["text"] = wanted.text
    return where, asked


async def _items(tables: ClickHouse, case_ids: Sequence[str]) -> list[FeedCase]:
    if not case_ids:
        return []
    sql = """SELECT case_id, event_id, causation_id, event_type, schema_version, event_time, payload FROM events FINAL
WHERE run_id = {run:String} AND case_id IN {cases:Array(String)} AND event_type IN {kinds:Array(String)}
  AND outcome != 'unchanged'
ORDER BY journal_offset"""
    asked = {"run": LIVE_RUN, "cases": list(case_ids), "kinds": list(_SHOWN_TYPES)}
    items: dict[str, FeedCase] = {}
    for case_id, event_id, cause, kind, version, at, payload in (await tables.query(sql, asked)).rows:
        env = wire.Envelope(
            id=event_id,
            type=kind,
            case_id=case_id,
            causation_id=cause or None,
            run_id=LIVE_RUN,
            time=at,
            version=version,
        )
        item = items.setdefault(case_id, FeedCase(case_id=case_id, received_at=at))
        try:
            item.take(env, wire.decode(kind, version, payload.encode()))
        except ContractError:
            # Payloads are deleted after 90 days; the event's type still shows that the case has ended.
            item.close(env)
    return [items[id] for id in case_ids if id in items]


async def offsets_of_case(tables: ClickHouse, case_id: str) -> tuple[int, int | None] | None:
    """Return (first offset, last offset if the case has ended) of a case in its partition; None if it is unknown.

    Raises:
        TransientError: ClickHouse is unavailable.
    """
    sql = """SELECT min(journal_offset), maxIf(journal_offset, event_type IN {ends:Array(String)}), count()
FROM events WHERE run_id = {run:String} AND case_id = {case:String}"""
    asked = {"run": LIVE_RUN, "case": case_id, "ends": sorted(TERMINAL_NAMES)}
    [(first, end, events)] = (await tables.query(sql, asked)).rows
    return (int(first), int(end) or None) if events else None


async def revisions_of(tables: ClickHouse, signal_id: str) -> list[dict[str, Any]]:
    """Return summaries of a signal's revisions, oldest first. ``calibration`` is None without one.

    Raises:
        TransientError: ClickHouse is unavailable.
    """
    sql = """SELECT revision, stage, verdict, unchecked_reason, action, direction, confidence, confidence_calibrated,
       calibration_id AS id, calibrated_low AS low, calibrated_high AS high, calibration_stories AS n_stories, p_true,
       decided_at, emitted_at, risk_flags, summary_zh, summary_en, notes FROM signals FINAL
WHERE run_id = {run:String} AND signal_id = {signal:String} ORDER BY revision"""
    result = await tables.query(sql, {"run": LIVE_RUN, "signal": signal_id})
    rows = [{name: _utc(value) for name, value in row.items()} for row in result.dicts()]
    for row in rows:
        of = {name: row.pop(name) for name in ("id", "low", "high", "n_stories", "p_true")}
        row["calibration"] = of if of["id"] else None
    return rows


async def withdrawn_of(tables: ClickHouse, case_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the present ``end``, ``verdict`` and ``confidence`` of those cases whose signal was retracted or superseded.

    Raises:
        TransientError: ClickHouse is unavailable.
    """
    if not case_ids:
        return {}
    sql = """SELECT case_id, stage, action, verdict, confidence FROM signals FINAL
WHERE run_id = {run:String} AND case_id IN {cases:Array(String)} ORDER BY case_id, revision DESC LIMIT 1 BY case_id"""
    result = await tables.query(sql, {"run": LIVE_RUN, "cases": list(case_ids)})
    return {
        str(case_id): {
            "end": f"{action} {confidence:.2f} ({stage})",
            "confidence": confidence,
            "withdrawn": stage,
            "verdict": verdict,
        }
        for case_id, stage, action, verdict, confidence in result.rows
        if stage in WITHDRAWN
    }


def _utc(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) else value
