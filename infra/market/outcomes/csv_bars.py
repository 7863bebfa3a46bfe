"""OHLCV files: CSV with a header line that names timestamp, open, high, low, close and volume, in any order.

A file is accepted or rejected as a whole: a single invalid line rejects it.
"""

from __future__ import annotations

import csv
import math
import re
from array import array
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from infra.market.outcomes.markets import market_symbol
from schemas.errors import ConfigError, ContractError
from schemas.prices import PriceSeries

SYNTHETIC = "synthetic"
"""Prefix of the source name of synthetic prices; ``v_trust_checks`` filters on it."""
_COLUMNS = {
    **dict.fromkeys(("timestamp", "time", "date", "datetime", "open_time", "unix"), "timestamp"),
    **{name: name for name in ("open", "high", "low", "close", "volume", "symbol", "venue")},
}
_NEEDED = ("timestamp", "open", "high", "low", "close", "volume")
_MAX_LISTED = 20
_EPOCH = re.compile(r"\d{1,19}(?:\.\d+)?\Z")
_EPOCH_UNITS = ((1e11, 1e3), (1e14, 1.0), (1e17, 1e-3), (1e20, 1e-6))
"""(upper bound, milliseconds per unit): seconds to the year 5138, then milli-, micro- and nanoseconds."""


class PriceFile(msgspec.Struct, frozen=True, kw_only=True):
    """The content of one file. ``source`` names it in the tables; it begins with "synthetic" if the file says so."""

    series: tuple[PriceSeries, ...]
    bars: int
    source: str


def read_bars(path: Path, *, symbol: str | None = None, venue: str = "") -> PriceFile:
    """Read a file. ``symbol`` and ``venue`` apply where the file has no such column.

    Times are ISO 8601 (UTC without a zone) or epoch numbers in seconds, milli-, micro- or nanoseconds. Lines before the
    header that begin with ``#`` are comments; one that contains "synthetic" marks the source as synthetic.

    Raises:
        ConfigError: the file or a column is missing, or neither a column nor the option names a symbol.
        ContractError: lines are invalid; the message lists the first twenty.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            comments, numbered = _without_comments(enumerate(file, start=1))
            reading = _Reading(None if symbol is None else market_symbol(symbol), venue)
            reading.read(path, numbered)
            reading.settle()
    except OSError as exc:
        raise ConfigError(f"{path}: cannot be read ({exc.strerror}); name a CSV file of prices") from exc
    except UnicodeDecodeError as exc:
        raise ContractError(f"{path} is not UTF-8: save it as UTF-8", reason="not_utf8") from exc
    if reading.wrong:
        lines = "\n".join(f"  line {line}: {text}" for line, text in reading.wrong[:_MAX_LISTED])
        more = f"\n  … and {len(reading.wrong) - _MAX_LISTED} more" if len(reading.wrong) > _MAX_LISTED else ""
        raise ContractError(
            f"{path}: nothing was imported, {len(reading.wrong)} lines are wrong; correct them:\n{lines}{more}",
            reason="bad_prices",
        )
    invented = any(SYNTHETIC in comment.lower() for comment in comments)
    return PriceFile(
        series=reading.series(), bars=reading.bars, source=f"{SYNTHETIC if invented else 'csv'}:{path.name}"
    )


def _without_comments(lines: Iterator[tuple[int, str]]) -> tuple[list[str], Iterator[tuple[int, str]]]:
    comments: list[str] = []
    for number, line in lines:
        if not line.startswith("#") and line.strip():
            first = (number, line)
            return comments, _chained(first, lines)
        comments.append(line)
    return comments, iter(())


def _chained(first: tuple[int, str], rest: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    yield first
    yield from rest


class _Reading:
    """One pass over a file: collects the bars of each market and the errors of each line."""

    def __init__(self, symbol: str | None, venue: str) -> None:
        self._symbol, self._venue = symbol, venue
        self._markets: dict[tuple[str, str], tuple[array[int], array[float], array[int]]] = {}
        self._symbols: dict[str, str] = {}
        self.wrong: list[tuple[int, str]] = []
        self.bars = 0

    def read(self, path: Path, numbered: Iterator[tuple[int, str]]) -> None:
        try:
            _, header = next(numbered)
        except StopIteration:
            raise ConfigError(f"{path} is empty: it has to begin with a line that names {', '.join(_NEEDED)}") from None
        names = [_COLUMNS.get(cell.strip().lower(), "") for cell in next(csv.reader([header]))]
        missing = [name for name in _NEEDED if name not in names]
        if missing:
            raise ConfigError(
                f"{path}: its first line names no {', '.join(missing)}; it has to name {', '.join(_NEEDED)} "
                "(and may name symbol and venue)"
            )
        if self._symbol is None and "symbol" not in names:
            raise ConfigError(f"{path} has no column symbol: say which market it is of, such as --symbol BTC/USDT")
        for number, line in numbered:
            if line.strip():
                cells = next(csv.reader([line]))
                if len(cells) != len(names):
                    self.wrong.append((number, f"{len(cells)} fields instead of {len(names)}"))
                    continue
                self._take(number, {name: cell.strip() for name, cell in zip(names, cells, strict=True)})

    def _take(self, number: int, row: dict[str, str]) -> None:
        try:
            at_ms = epoch_ms_of(row["timestamp"])
            opened = _checked(row)
            market = (self._market_of(row.get("symbol", "")), row.get("venue", "") or self._venue)
        except (ValueError, ConfigError) as exc:
            self.wrong.append((number, str(exc)))
            return
        times, opens, lines = self._markets.setdefault(market, (array("q"), array("d"), array("q")))
        times.append(at_ms)
        opens.append(opened)
        lines.append(number)
        self.bars += 1

    def _market_of(self, written: str) -> str:
        if not written:
            if self._symbol is None:
                raise ValueError("no symbol: write one, such as BTC/USDT")
            return self._symbol
        if written not in self._symbols:
            self._symbols[written] = market_symbol(written)
        return self._symbols[written]

    def series(self) -> tuple[PriceSeries, ...]:
        """Return one series per market, in time order after :meth:`settle`."""
        return tuple(
            PriceSeries(symbol=symbol, venue=venue, times_ms=times, opens=opens)
            for (symbol, venue), (times, opens, _) in self._markets.items()
        )

    def settle(self) -> None:
        """Sort each market's bars by time and drop duplicates. Different prices at one time are an error."""
        for market, (times, opens, lines) in self._markets.items():
            if all(times[n] < times[n + 1] for n in range(len(times) - 1)):
                continue
            order = sorted(range(len(times)), key=times.__getitem__)
            kept: list[int] = []
            for place in order:
                if not kept or times[kept[-1]] != times[place]:
                    kept.append(place)
                elif opens[kept[-1]] != opens[place]:
                    self.wrong.append(
                        (lines[place], f"another price of {market[0]} for the moment of line {lines[kept[-1]]}")
                    )
            columns = (array("q", (times[n] for n in kept)), array("d", (opens[n] for n in kept)))
            self._markets[market] = (*columns, array("q", (lines[n] for n in kept)))


def _checked(row: dict[str, str]) -> float:
    """Validate a bar and return its open."""
    prices = [_number(name, row[name]) for name in ("open", "high", "low", "close")]
    opened, high, low, closed = prices
    if low <= 0:
        raise ValueError(f"a price of {low:g}: prices are above 0")
    if not low <= min(opened, closed) <= max(opened, closed) <= high:
        raise ValueError(f"open {opened:g} and close {closed:g} do not lie between low {low:g} and high {high:g}")
    if _number("volume", row["volume"]) < 0:
        raise ValueError("a volume below 0")
    return opened


def _number(name: str, written: str) -> float:
    try:
        value = float(written)
    except ValueError:
        raise ValueError(f"{name} is {written!r:.40}, which is no number") from None
    if not math.isfinite(value):
        raise ValueError(f"{name} is {written!r:.40}, which is no price")
    return value


def epoch_ms_of(written: str) -> int:
    """Return a time in milliseconds since 1970, rounded up so that a price is never dated too early.

    Raises:
        ValueError: it is not a time.
    """
    if _EPOCH.match(written):
        value = float(written)
        for below, per_unit in _EPOCH_UNITS:
            if value < below:
                return math.ceil(value * per_unit)
    try:
        at = datetime.fromisoformat(written)
    except ValueError:
        raise ValueError(f"timestamp is {written!r:.40}, which is no time: write ISO 8601 or an epoch number") from None
    at = at.replace(tzinfo=UTC) if at.tzinfo is None else at
    return math.ceil(at.timestamp() * 1000)
