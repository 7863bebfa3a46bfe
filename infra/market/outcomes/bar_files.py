"""Reading of bars from a file, a folder or a pattern: text, JSON or Parquet, also compressed with gzip, zstd or zip.

All files are accepted or rejected together: a single invalid line rejects them. A file's format is detected from its
first bytes, not from its name.
"""

from __future__ import annotations

import gzip
import importlib
import io
import re
import zipfile
import zlib
from collections.abc import Mapping
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, cast

import msgspec
import orjson

from infra.market.outcomes.bar_rows import BarRows, Layout
from infra.market.outcomes.markets import market_symbol
from schemas.errors import ConfigError, ContractError
from schemas.prices import PriceSeries

SYNTHETIC = "synthetic"
"""Prefix of the source name for synthetic prices; ``v_trust_checks`` filters by it."""
_GZIP, _ZSTD, _ZIP, _PARQUET = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PK\x03\x04", b"PAR1"
_NAMED = re.compile(r"([A-Z0-9]{5,20})-\d+(?:s|m|h|d|w|mo)-\d{4}-\d{2}(?:-\d{2})?\.")
"""Files of Binance's archive state their market only in their name: BTCUSDT-1m-2024-01.csv
(https://github.com/binance/binance-public-data)."""
_ADDRESS = re.compile(r"\W*https?://\S+\s*\Z")
"""The line with its address that CryptoDataDownload writes above the header."""


class PriceFile(msgspec.Struct, frozen=True, kw_only=True):
    """The bars read. ``source`` is their name in the tables; it begins with "synthetic" if a file says so."""

    series: tuple[PriceSeries, ...]
    bars: int
    source: str


def read_bars(
    path: Path, *, symbol: str | None = None, venue: str = "", columns: Mapping[str, str] | None = None
) -> PriceFile:
    """Read a file, every file of a folder, or every file that a pattern such as ``prices/*.csv.gz`` finds.

    ``symbol`` and ``venue`` apply if a file has no such column. ``columns`` maps roles to names of the file's columns:
    ``{"timestamp": "Zeit", "open": "Start"}``. Text needs a header, except Binance's klines. A bar's time is when it
    opens: ISO 8601 (UTC without a zone), or an epoch number in seconds, milli-, micro- or nanoseconds. Lines before the
    header that begin with ``#`` are comments; one that contains "synthetic" marks the source as synthetic.

    Raises:
        ConfigError: there is no such file, a column is not found, or the symbol is not stated anywhere.
        ContractError: lines are invalid (the message lists the first twenty), or a file is damaged.
    """
    files = _files(path)
    rows = BarRows(None if symbol is None else market_symbol(symbol), venue)
    kinds, invented = set(), False
    for file in files:
        kind, of_file = _read(file, rows, columns or {}, symbol_given=symbol is not None)
        kinds.add(kind)
        invented |= of_file
    rows.settle()
    if rows.wrong:
        raise ContractError(
            f"{path}: nothing was imported, {len(rows.wrong)} lines are wrong; correct them:\n{rows.told()}",
            reason="bad_prices",
        )
    kind = SYNTHETIC if invented else kinds.pop() if len(kinds) == 1 else "files"
    return PriceFile(series=rows.series(), bars=rows.bars, source=f"{kind}:{path.name}")


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith("."))
    elif path.exists() or not any(sign in str(path) for sign in "*?["):
        return [path]
    else:
        base = Path(path.anchor)
        files = sorted(file for file in base.glob(str(path.relative_to(base))) if file.is_file())
    if not files:
        raise ConfigError(f"{path}: there is no file in it; name a file, a folder or a pattern of files with prices")
    return files


def _read(file: Path, rows: BarRows, columns: Mapping[str, str], *, symbol_given: bool) -> tuple[str, bool]:
    """Read one file; return its format, and whether it says that its prices are synthetic."""
    match = None if symbol_given else _NAMED.match(file.name)
    rows.begin(file, market_symbol(match[1]) if match else None)
    try:
        with ExitStack() as stack:
            stream = _unpacked(file, stack)
            head = stream.peek(16).lstrip()
            if head.startswith(_PARQUET):
                _read_parquet(file, stream, rows, columns)
                return "parquet", False
            if head.startswith(b"["):
                _read_json(file, stream.read(), rows)
                return "json", False
            return "csv", _read_text(
                file, io.TextIOWrapper(cast(BinaryIO, stream), "utf-8-sig", newline=""), rows, columns
            )
    except UnicodeDecodeError as exc:
        raise ContractError(f"{file} is not UTF-8: save it as UTF-8", reason="not_utf8") from exc
    except (EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile) as exc:
        raise ContractError(f"{file} is damaged, get it again: {exc!s:.200}", reason="damaged") from exc
    except OSError as exc:
        if exc.errno is None:  # raised by a decompressor, not by the system
            raise ContractError(f"{file} is damaged, get it again: {exc!s:.200}", reason="damaged") from exc
        raise ConfigError(f"{file}: cannot be read ({exc.strerror}); name a file of prices") from exc


def _unpacked(file: Path, stack: ExitStack) -> io.BufferedReader:
    raw = stack.enter_context(file.open("rb"))
    magic = raw.peek(4)[:4]
    if magic.startswith(_GZIP):
        return io.BufferedReader(cast(io.RawIOBase, stack.enter_context(gzip.open(raw))))
    if magic == _ZSTD:
        pyarrow = importlib.import_module("pyarrow")
        return io.BufferedReader(stack.enter_context(pyarrow.CompressedInputStream(raw, "zstd")))
    if magic == _ZIP:
        packed = stack.enter_context(zipfile.ZipFile(raw))
        names = [name for name in packed.namelist() if not name.endswith("/")]
        if len(names) != 1:
            raise ConfigError(f"{file} holds {len(names)} files: unpack it, and name the folder")
        return io.BufferedReader(cast(io.RawIOBase, stack.enter_context(packed.open(names[0]))))
    return raw


def _read_text(file: Path, text: io.TextIOWrapper, rows: BarRows, columns: Mapping[str, str]) -> bool:
    """Read separated values; return whether a comment says that they are synthetic."""
    invented, numbered = False, enumerate(text, start=1)
    for number, line in numbered:
        if line.startswith("#"):
            invented |= SYNTHETIC in line.lower()
        elif line.strip() and not _ADDRESS.match(line):
            layout = Layout.of_line(file, line, columns)
            rest = numbered if layout.header else chain([(number, line)], numbered)
            for place, bar in rest:
                if bar.strip():
                    rows.take(layout, layout.split(bar), place)
            return invented
    raise ConfigError(f"{file} is empty: it has to begin with a line that names {', '.join(Layout.needed)}")


def _read_json(file: Path, body: bytes, rows: BarRows) -> None:
    """Read ccxt's ``fetch_ohlcv`` result, an array of [time, open, high, low, close, volume], or Binance's klines."""
    try:
        bars = orjson.loads(body)
    except orjson.JSONDecodeError as exc:
        raise ContractError(f"{file} is not JSON, get it again: {exc!s:.200}", reason="not_json") from exc
    layout = Layout.of_klines(len(bars[0]) if bars and isinstance(bars[0], list) else 0)
    if layout is None:
        raise ConfigError(
            f"{file} holds no bars as ccxt gives them, [[time, open, high, low, close, volume], …]; it begins with {body[:60]!r}"
        )
    for number, bar in enumerate(bars, start=1):
        rows.take(layout, list(map(_cell, bar)) if isinstance(bar, list) else [], number)


def _read_parquet(file: Path, stream: io.BufferedReader, rows: BarRows, columns: Mapping[str, str]) -> None:
    pyarrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    try:
        source = parquet.ParquetFile(pyarrow.BufferReader(stream.read()))
        layout = Layout.of_names(file, source.schema_arrow.names, columns)
        number = 0
        for batch in source.iter_batches(columns=layout.names_used):
            for bar in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                number += 1
                rows.take(layout.of_used, list(map(_cell, bar)), number)
    except pyarrow.ArrowInvalid as exc:
        raise ContractError(f"{file} is damaged, get it again: {exc!s:.200}", reason="damaged") from exc


def _cell(value: Any) -> str:
    return "" if value is None else str(value)
