"""Rows of bars: their columns, the validation of each row, and the detection of outliers among neighbours."""

from __future__ import annotations

import csv
import math
import re
from array import array
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import msgspec

from infra.market.outcomes.markets import market_symbol
from schemas.errors import ConfigError
from schemas.prices import PriceSeries

_TIMES = ("unix", "timestamp", "open_time", "opentime", "time", "datetime", "date")
"""Names of the time's column, best first. Of several, the number is exact, while a text may be in another time zone."""
_ROLES = {
    **dict.fromkeys(_TIMES, "timestamp"),
    **{name: name for name in ("open", "high", "low", "close", "volume", "symbol", "venue")},
}
_PRICES = ("open", "high", "low", "close")
_VOLUME_OF = re.compile(r"volume[ _]([A-Za-z0-9]{2,10})\Z", re.IGNORECASE)
"""CryptoDataDownload has ``Volume BTC``, in the base currency, then ``Volume USDT``."""
_BINANCE = 12
"""Number of columns of Binance's klines, which its archive has without a header: open time, open, high, low, close,
volume, close time, … (https://github.com/binance/binance-public-data#klines)."""
_CCXT = ("timestamp", "open", "high", "low", "close", "volume")
_EPOCH = re.compile(r"\d{1,19}(?:\.\d+)?\Z")
_EPOCH_UNITS = ((1e11, 1e3), (1e14, 1.0), (1e17, 1e-3), (1e20, 1e-6))
"""(upper bound, milliseconds per unit): seconds to the year 5138, then milli-, micro- and nanoseconds."""
OUTLIER = 100.0
"""A bar is an outlier if a price is at least this many times above, or below, those of both neighbours. It is then a
misplaced decimal point, because no market trades there for one bar and returns."""
_MAX_LISTED = 20


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """The columns of a row. ``places`` by role: timestamp, open, high, low, close, perhaps volume, symbol and venue.

    ``volume_of`` is the currency of the volume; empty = the file does not state it, so the base currency.
    """

    places: dict[str, int]
    width: int
    names: tuple[str, ...] = ()
    volume_of: str = ""
    header: bool = True
    separator: str = ","

    needed: ClassVar[tuple[str, ...]] = ("timestamp", *_PRICES)

    @classmethod
    def of_klines(cls, width: int, separator: str = ",") -> Layout | None:
        """Return the layout of ccxt's rows (6 columns) or Binance's klines (12), None for any other width."""
        if width not in (len(_CCXT), _BINANCE):
            return None
        places = {role: place for place, role in enumerate(_CCXT)}
        return cls(places=places, width=width, header=False, separator=separator)

    @classmethod
    def of_line(cls, file: Path, line: str, columns: Mapping[str, str]) -> Layout:
        """Return the layout from a file's first line: a header, or a row of Binance's archive, which has no header.

        ``columns`` as in :func:`read_bars`.

        Raises:
            ConfigError: the line does not name all needed columns.
        """
        separator = max((",", ";", "\t"), key=line.count)
        cells = [cell.strip() for cell in next(csv.reader([line], delimiter=separator))]
        if not all(map(_is_figure, cells)):
            return msgspec.structs.replace(cls.of_names(file, cells, columns), separator=separator)
        klines = cls.of_klines(len(cells), separator) if len(cells) == _BINANCE else None
        if klines is None:
            raise ConfigError(
                f"{file} has no header ({line.strip():.100}): add a first line that names its {len(cells)} columns, "
                f"such as {separator.join((*_CCXT, 'symbol'))}"
            )
        return klines

    @classmethod
    def of_names(cls, file: Path, names: Sequence[str], columns: Mapping[str, str]) -> Layout:
        """Return the layout from a header.

        Raises:
            ConfigError: the header does not name all needed columns.
        """
        lower = [name.strip().lower() for name in names]
        places: dict[str, int] = {}
        for place in sorted(range(len(lower)), key=lambda n: _TIMES.index(lower[n]) if lower[n] in _TIMES else -1):
            if (role := _ROLES.get(lower[place])) is not None:
                places.setdefault(role, place)
        volume_of = ""
        of_currency = [
            (place, match[1]) for place, name in enumerate(names) if (match := _VOLUME_OF.match(name.strip()))
        ]
        if "volume" not in places and of_currency:
            places["volume"], volume_of = of_currency[0]
        for role, name in columns.items():
            if name.strip().lower() not in lower:
                raise ConfigError(f"{file} has no column {name!r:.60}: it has {_listed(names)}; correct --columns")
            places[role] = lower.index(name.strip().lower())
        _refuse_lacking(file, places, names)
        return cls(places=places, width=len(names), names=tuple(names), volume_of=volume_of.upper())

    @property
    def names_used(self) -> list[str]:
        """The names of the columns with a role, in the order of :attr:`of_used`."""
        return [self.names[place] for place in self.places.values()]

    @property
    def of_used(self) -> Layout:
        """The layout of rows that contain only those columns."""
        return msgspec.structs.replace(
            self, places={role: n for n, role in enumerate(self.places)}, width=len(self.places)
        )

    def split(self, line: str) -> list[str]:
        """Return the cells of a line."""
        cells = [cell.strip() for cell in next(csv.reader([line], delimiter=self.separator))]
        if self.separator == ";":  # if the comma is not the separator, it may be the decimal point
            return [cell.replace(",", ".") if cell.count(",") == 1 and "." not in cell else cell for cell in cells]
        return cells


def _is_figure(cell: str) -> bool:
    try:
        float(cell.replace(",", "."))
    except ValueError:
        return False
    return True


def _refuse_lacking(file: Path, places: Mapping[str, int], names: Sequence[str]) -> None:
    if missing := [role for role in Layout.needed if role not in places]:
        raise ConfigError(
            f"{file}: its first line names no {', '.join(missing)}; it has {_listed(names)}. Say which is which: "
            f"--columns {','.join(f'{role}=…' for role in missing)}"
        )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"{name!r:.40}" for name in names[:20])


class _Market:
    """The bars of one market in the order of the files, with the file and line of each."""

    def __init__(self) -> None:
        self.times = array("q")
        self.prices = tuple(array("d") for _ in _PRICES)
        self.volumes = array("d")
        self.places: list[tuple[int, int]] = []

    def reorder(self, order: Sequence[int]) -> None:
        self.times = array("q", (self.times[n] for n in order))
        self.prices = tuple(array("d", (column[n] for n in order)) for column in self.prices)
        self.volumes = array("d", (self.volumes[n] for n in order))
        self.places = [self.places[n] for n in order]

    def bar(self, place: int) -> tuple[float, ...]:
        return tuple(column[place] for column in self.prices)


class BarRows:
    """Collects the bars of each market over all files, and the errors of each line."""

    def __init__(self, symbol: str | None, venue: str) -> None:
        self._symbol, self._venue = symbol, venue
        self._of_file: str | None = None
        self._files: list[Path] = []
        self._markets: dict[tuple[str, str], _Market] = {}
        self._symbols: dict[str, str] = {}
        self.wrong: list[tuple[int, int, str]] = []
        """Errors: number of the file, line, text."""

    @property
    def bars(self) -> int:
        """The number of bars; after :meth:`settle`, repeated bars count once."""
        return sum(len(market.times) for market in self._markets.values())

    def begin(self, file: Path, symbol: str | None) -> None:
        """Begin a file; ``symbol`` is the symbol in its name, if any."""
        self._files.append(file)
        self._of_file = symbol

    def take(self, layout: Layout, cells: Sequence[str], line: int) -> None:
        """Add a row. An invalid row is added to ``wrong``.

        Raises:
            ConfigError: neither a column nor the file's name nor the user states the symbol.
        """
        if "symbol" not in layout.places and self._symbol is None and self._of_file is None:
            raise ConfigError(
                f"{self._files[-1]} has no column symbol: say which market it is of, such as --symbol BTC/USDT"
            )
        try:
            if len(cells) != layout.width:
                raise ValueError(f"{len(cells)} fields instead of {layout.width}")
            places = layout.places
            at_ms = epoch_ms_of(cells[places["timestamp"]])
            prices = _prices([cells[places[name]] for name in _PRICES])
            volume = _volume(cells[places["volume"]]) if "volume" in places else math.nan
            symbol = self._market_of(cells[places["symbol"]] if "symbol" in places else "")
        except (ValueError, ConfigError) as exc:
            self.wrong.append((len(self._files), line, str(exc)))
            return
        venue = (cells[places["venue"]] if "venue" in places else "") or self._venue
        market = self._markets.get((symbol, venue)) or self._markets.setdefault((symbol, venue), _Market())
        market.times.append(at_ms)
        for column, price in zip(market.prices, prices, strict=True):
            column.append(price)
        in_base = layout.volume_of in ("", symbol.partition("/")[0])
        market.volumes.append(volume if in_base else math.nan)
        market.places.append((len(self._files), line))

    def _market_of(self, written: str) -> str:
        if not written:
            if (known := self._symbol or self._of_file) is None:
                raise ValueError("no symbol: write one, such as BTC/USDT")
            return known
        if written not in self._symbols:
            self._symbols[written] = market_symbol(written)
        return self._symbols[written]

    def settle(self) -> None:
        """Sort each market's bars by time and drop repeated ones. Conflicting prices and outliers become errors."""
        for (symbol, _), market in self._markets.items():
            if any(earlier >= later for earlier, later in pairwise(market.times)):
                self._sort(symbol, market)
            for place in outliers(market.times, market.prices):
                fault = f"{symbol} at {max(market.bar(place)):g} to {min(market.bar(place)):g}, 100 times off the bars beside it"
                self.wrong.append((*market.places[place], fault))
        self.wrong.sort()

    def _sort(self, symbol: str, market: _Market) -> None:
        kept: list[int] = []
        for place in sorted(range(len(market.times)), key=market.times.__getitem__):
            if not kept or market.times[kept[-1]] != market.times[place]:
                kept.append(place)
            elif market.bar(kept[-1]) != market.bar(place):
                file, line = market.places[place]
                fault = (
                    f"another price of {symbol} for the moment of {self._where(*market.places[kept[-1]], here=file)}"
                )
                self.wrong.append((file, line, fault))
        market.reorder(kept)

    def _where(self, file: int, line: int, *, here: int = 0) -> str:
        return (
            f"line {line}" if len(self._files) == 1 or file == here else f"line {line} of {self._files[file - 1].name}"
        )

    def told(self) -> str:
        """Return the first twenty errors, one per line."""
        lines = [f"  {self._where(file, line)}: {fault}" for file, line, fault in self.wrong[:_MAX_LISTED]]
        more = len(self.wrong) - _MAX_LISTED
        return "\n".join([*lines, *([f"  … and {more} more"] if more > 0 else [])])

    def series(self) -> tuple[PriceSeries, ...]:
        """Return one series per market, in time order after :meth:`settle`."""
        return tuple(
            PriceSeries(
                symbol=symbol,
                venue=venue,
                times_ms=market.times,
                opens=market.prices[0],
                highs=market.prices[1],
                lows=market.prices[2],
                closes=market.prices[3],
                volumes=market.volumes,
            )
            for (symbol, venue), market in self._markets.items()
        )


def outliers(times: Sequence[int], prices: Sequence[Sequence[float]]) -> list[int]:
    """Return the indexes of bars that differ from both neighbours by a factor of ``OUTLIER`` or more.

    The first and the last bar are compared with the two nearest. ``prices``: opens, highs, lows, closes.
    """
    _, highs, lows, _ = prices
    count, places = len(times), []
    for place in range(count if count > 2 else 0):
        beside = (1, 2) if place == 0 else (count - 3, count - 2) if place == count - 1 else (place - 1, place + 1)
        too_high = all(highs[place] >= OUTLIER * highs[other] for other in beside)
        if too_high or all(lows[place] * OUTLIER <= lows[other] for other in beside):
            places.append(place)
    return places


def _prices(cells: Sequence[str]) -> tuple[float, ...]:
    """Parse and validate open, high, low and close."""
    opened, high, low, closed = (_number(name, cell) for name, cell in zip(_PRICES, cells, strict=True))
    if low <= 0:
        raise ValueError(f"a price of {low:g}: prices are above 0")
    if not low <= min(opened, closed) <= max(opened, closed) <= high:
        raise ValueError(f"open {opened:g} and close {closed:g} do not lie between low {low:g} and high {high:g}")
    return opened, high, low, closed


def _volume(cell: str) -> float:
    if not cell:
        return math.nan  # ccxt writes null if an exchange does not state the volume
    volume = _number("volume", cell)
    if volume < 0:
        raise ValueError("a volume below 0")
    return volume


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
