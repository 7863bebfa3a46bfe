"""The first rows of a query result, for display, however long the result is.

The response is read as lines of JSON and closed as soon as enough rows or bytes have arrived, so a row of a hundred
megabytes is never held in memory. Values are as in JSON, except that numbers which a browser cannot represent become
text, and times are UTC.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from infra.clickhouse.client import ClickHouse
from schemas.errors import PermanentError

_FORMAT = "JSONCompactEachRowWithNamesAndTypes"
_HEAD = 2
"""Header lines before the rows: names, and types."""
_WHOLE = 2**53
"""Larger integers are not exact in a browser."""
_SAFE_DIGITS = 15
"""Decimal numbers with at most this many digits are exact in a browser."""
_WRAPPED = re.compile(r"(?:Nullable|LowCardinality)\((.*)\)$")
_ZONE = re.compile(r"DateTime[^']*'([^']+)'")


class FirstRows(msgspec.Struct, frozen=True):
    """``types`` are ClickHouse's type names of the columns; ``cut`` is True if there are more rows."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: list[list[Any]]
    cut: bool


async def first_rows(client: ClickHouse, sql: str, *, most: int, most_bytes: int) -> FirstRows:
    """Run a query and return its first rows: at most ``most``, and at most ``most_bytes`` of the response.

    Raises:
        PermanentError: the statement is refused, or its first row alone is larger than ``most_bytes``.
        TransientError: as every method of the client.
    """
    rest, lines, cut, size = b"", list[bytes](), False, 0
    async with client._errors(sql) as connected, await connected.raw_stream(sql, fmt=_FORMAT) as stream:
        zone = connected.server_tz
        async for chunk in stream:
            size += len(chunk)
            *whole, rest = (rest + chunk).split(b"\n")
            lines += whole
            if cut := len(lines) > most + _HEAD or size > most_bytes:
                break
    if rest and not cut:
        lines.append(rest)
    if cut and len(lines) <= _HEAD:
        raise PermanentError(f"the first row alone is larger than {most_bytes} bytes: ask for less of it")
    return await asyncio.to_thread(_read, lines[: most + _HEAD], cut, zone)


def _read(lines: Sequence[bytes], cut: bool, zone: tzinfo) -> FirstRows:
    if len(lines) < _HEAD:
        return FirstRows((), (), [], cut)  # the statement has no result
    try:
        names, types, *rows = [_line(line) for line in lines]
    except ValueError as exc:  # ClickHouse reports a failure in the middle of a result within the body
        message = lines[-1].decode("utf-8", "replace")[:1000]
        raise PermanentError(f"the query broke off: {message}; ask for less, or correct it") from exc
    cells = [[_cell(kind, value, zone) for kind, value in zip(types, row, strict=True)] for row in rows]
    return FirstRows(tuple(names), tuple(types), cells, cut)


def _line(line: bytes) -> list[Any]:
    values: list[Any] = json.loads(line.decode("utf-8", "replace"), parse_float=_Digits)
    return values


class _Digits(str):
    """A number with a fraction or an exponent, as written in the response."""

    __slots__ = ()


def _cell(kind: str, value: Any, zone: tzinfo) -> Any:
    while (inner := _WRAPPED.match(kind)) is not None:
        kind = inner.group(1)
    if isinstance(value, str) and not isinstance(value, _Digits):
        if kind.startswith("DateTime"):
            return _utc(kind, value, zone)
        if kind.startswith(("Int", "UInt")):  # wide integers arrive as text from some engines
            return _plain(kind, int(value))
    return _plain(kind, value)


def _plain(kind: str, value: Any) -> Any:
    match value:
        case bool():
            return value
        case int():
            return value if abs(value) <= _WHOLE else str(value)
        case _Digits():
            exact = "Decimal" not in kind or sum(c.isdigit() for c in value) <= _SAFE_DIGITS
            return float(value) if exact else str(value)
        case list():
            return [_plain(kind, item) for item in value]
        case dict():
            return {name: _plain(kind, item) for name, item in value.items()}
        case _:
            return value


def _utc(kind: str, value: str, zone: tzinfo) -> datetime | str:
    named = _ZONE.match(kind)
    try:
        at = datetime.fromisoformat(value)
        return at.replace(tzinfo=zone if named is None else ZoneInfo(named.group(1))).astimezone(UTC)
    except (ValueError, OverflowError, KeyError):
        return value
