"""Files of prices as they come: each shape that exchanges and archives give, packed or not, one or many."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from datetime import UTC, datetime
from math import isnan
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from infra.market.outcomes.bar_files import PriceFile, read_bars
from schemas.errors import ConfigError, ContractError

T0 = 1_704_067_200_000
"""2024-01-01 in milliseconds."""
WANTED = [(T0, 100.0, 110.0, 90.0, 105.0), (T0 + 60_000, 105.0, 106.0, 104.0, 104.5)]
PLAIN = "timestamp,open,high,low,close,volume\n1704067200,100,110,90,105,3\n1704067260,105,106,104,104.5,4\n"


def bars(found: PriceFile) -> list[tuple[float, ...]]:
    (one,) = found.series
    return list(zip(one.times_ms, one.opens, one.highs, one.lows, one.closes, strict=True))


def volumes(found: PriceFile) -> list[float | None]:
    (one,) = found.series
    return [None if isnan(volume) else volume for volume in one.volumes]


def klines(unit: int) -> str:
    """Binance's archive: no header; time in milliseconds, since 2025 in microseconds."""
    rows = []
    for (at, opened, high, low, closed), volume in zip(WANTED, (3, 4), strict=True):
        prices = f"{opened:.8f},{high:.8f},{low:.8f},{closed:.8f}"
        rows.append(f"{at * unit},{prices},{volume}.00000000,{(at + 59_999) * unit},306.5,17,1.5,150.25,0\n")
    return "".join(rows)


def cryptodatadownload() -> str:
    """Its address first, the newest bar first, the time twice, the volume in both currencies."""
    return (
        "https://www.CryptoDataDownload.com\n"
        "unix,date,symbol,open,high,low,close,Volume BTC,Volume USD\n"
        "1704067260,2024-01-01 01:01:00,BTC/USD,105,106,104,104.5,4,418\n"
        "1704067200,2024-01-01 01:00:00,BTC/USD,100,110,90,105,3,306.5\n"
    )


SHAPES: dict[str, tuple[str, str, list[float | None]]] = {
    "binance, milliseconds": ("BTCUSDT-1m-2024-01.csv", klines(1), [3, 4]),
    "binance, microseconds": ("BTCUSDT-1m-2024-01-01.csv", klines(1000), [3, 4]),
    "binance futures, with a header": (
        "BTCUSDT-1mo-2024-01.csv",
        "open_time,open,high,low,close,volume,close_time,quote_volume,count,taker_buy_volume,taker_buy_quote_volume,ignore\n"
        + klines(1),
        [3, 4],
    ),
    "cryptodatadownload": ("Bitstamp_BTCUSD_minute.csv", cryptodatadownload(), [3, 4]),
    "tradingview with volume": (
        "BINANCE_BTCUSDT, 1.csv",
        "time,open,high,low,close,Volume,Volume MA,RSI\n1704067200,100,110,90,105,3,,\n1704067260,105,106,104,104.5,4,3.5,61.2\n",
        [3, 4],
    ),
    "tradingview without volume": (
        "BITSTAMP_BTCUSD, 1.csv",
        "time,open,high,low,close\n2024-01-01T01:00:00+01:00,100,110,90,105\n2024-01-01T01:01:00+01:00,105,106,104,104.5\n",
        [None, None],
    ),
    "ccxt as json": (
        "btc.json",
        json.dumps([[*bar, volume] for bar, volume in zip(WANTED, (3.0, None), strict=True)], indent=1),
        [3, None],
    ),
    "binance's klines as json": (
        "klines.json",
        json.dumps([[row.split(",")[0], *row.split(",")[1:]] for row in klines(1).splitlines()]),
        [3, 4],
    ),
    "semicolons and decimal commas": (
        "kurse.csv",
        "Date;Open;High;Low;Close;Volume\n2024-01-01 00:00:00;100,0;110;90;105;3\n2024-01-01 00:01:00;105;106;104;104,5;4\n",
        [3, 4],
    ),
    "tabs": ("prices.tsv", PLAIN.replace(",", "\t"), [3, 4]),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_file_is_read_in_the_shape_that_it_comes_in(tmp_path: Path, shape: str) -> None:
    name, text, volume = SHAPES[shape]
    (tmp_path / name).write_text(text, "utf-8")
    named = name.startswith("BTCUSDT-") or "symbol" in text
    found = read_bars(tmp_path / name, symbol=None if named else "BTC/USDT")
    assert bars(found) == WANTED
    assert volumes(found) == volume
    assert found.series[0].symbol == ("BTC/USD" if "symbol" in text else "BTC/USDT")
    assert found.source == f"{'json' if name.endswith('json') else 'csv'}:{name}"


def zstd(text: bytes) -> bytes:
    out = pyarrow.BufferOutputStream()
    with pyarrow.CompressedOutputStream(out, "zstd") as packed:
        packed.write(text)
    return bytes(out.getvalue().to_pybytes())


def zipped(text: bytes, *names: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in names:
            packed.writestr(name, text)
    return out.getvalue()


@pytest.mark.parametrize("text", [PLAIN, SHAPES["binance, microseconds"][1]])
@pytest.mark.parametrize("suffix", [".gz", ".zst", ".zip", ""])
def test_a_packed_file_is_seen_by_its_first_bytes(tmp_path: Path, suffix: str, text: str) -> None:
    pack = {".gz": gzip.compress, ".zst": zstd, ".zip": lambda t: zipped(t, "a.csv"), "": gzip.compress}[suffix]
    (tmp_path / f"prices.csv{suffix}").write_bytes(pack(text.encode()))
    assert bars(read_bars(tmp_path / f"prices.csv{suffix}", symbol="BTC/USDT")) == WANTED


def parquet(file: Path, columns: dict[str, Any]) -> None:
    pyarrow.parquet.write_table(pyarrow.table(columns), file)


def test_parquet_is_read_with_times_as_numbers_or_as_times(tmp_path: Path) -> None:
    columns: dict[str, Any] = {
        name: list(column)
        for name, column in zip(("open", "high", "low", "close"), list(zip(*WANTED, strict=True))[1:], strict=True)
    }
    moments = [datetime.fromtimestamp(bar[0] / 1000, UTC) for bar in WANTED]
    for unit in ("ms", "us", "ns"):
        at = pyarrow.array(moments, pyarrow.timestamp(unit, "UTC"))
        parquet(tmp_path / f"{unit}.parquet", {"date": at, **columns, "volume": [3.0, None], "trades": [7, 8]})
        found = read_bars(tmp_path / f"{unit}.parquet", symbol="BTC/USDT")
        assert (bars(found), volumes(found), found.source) == (WANTED, [3, None], f"parquet:{unit}.parquet")
    numbers = {"Zeit": [bar[0] for bar in WANTED], **columns, "symbol": ["ETH/USDT"] * 2}
    parquet(tmp_path / "named.parquet", numbers)
    found = read_bars(tmp_path / "named.parquet", columns={"timestamp": "Zeit"})
    assert (bars(found), found.series[0].symbol) == (WANTED, "ETH/USDT")
    parquet(tmp_path / "wrong.parquet", {"time": [T0, T0 + 1], **columns, "high": [110.0, None]})
    with pytest.raises(ContractError, match="line 2: high is '', which is no number"):
        read_bars(tmp_path / "wrong.parquet", symbol="BTC/USDT")


def months(directory: Path) -> None:
    first, second = PLAIN.splitlines()[1:]
    head = PLAIN.splitlines()[0] + "\n"
    (directory / "2024-01.csv").write_text(head + first + "\n")
    (directory / "2024-02.csv.gz").write_bytes(gzip.compress((head + second + "\n" + first + "\n").encode()))
    (directory / ".DS_Store").write_bytes(b"\x00")


def test_a_folder_or_a_pattern_is_one_import_of_all_its_files(tmp_path: Path) -> None:
    folder = tmp_path / "prices"
    folder.mkdir()
    months(folder)
    whole = read_bars(folder, symbol="BTC/USDT")
    assert (bars(whole), whole.bars, whole.source) == (WANTED, 2, "csv:prices")
    assert bars(read_bars(folder / "*.csv*", symbol="BTC/USDT")) == WANTED
    assert bars(read_bars(folder / "*.csv", symbol="BTC/USDT")) == WANTED[:1]
    (folder / "z.json").write_text(f"[[{T0}, 100, 110, 90, 106, 3]]")
    with pytest.raises(
        ContractError, match=r"line 1 of z.json: another price of BTC/USDT for the moment of line 2 of 2024-01.csv"
    ):
        read_bars(folder, symbol="BTC/USDT")
    for nothing in (tmp_path / "*.xyz", tmp_path / "empty"):
        (tmp_path / "empty").mkdir(exist_ok=True)
        with pytest.raises(ConfigError, match="there is no file in it"):
            read_bars(nothing, symbol="BTC/USDT")


def test_archives_of_several_markets_in_one_folder_are_told_apart_by_their_names(tmp_path: Path) -> None:
    for name in ("BTCUSDT-1m-2024-01.csv", "ETHUSDT-1m-2024-01.csv"):
        (tmp_path / name).write_text(klines(1))
    assert [one.symbol for one in read_bars(tmp_path).series] == ["BTC/USDT", "ETH/USDT"]


def test_unknown_columns_are_shown_and_can_be_named(tmp_path: Path) -> None:
    file = tmp_path / "p.csv"
    file.write_text("Zeit,Start,Hoch,Tief,Ende,Menge\n1704067200,100,110,90,105,3\n")
    with pytest.raises(
        ConfigError, match=r"names no timestamp, open.* it has 'Zeit', 'Start', .*--columns timestamp=…,open=…"
    ):
        read_bars(file, symbol="BTC/USDT")
    named = {"timestamp": "zeit", "open": "Start", "high": "Hoch", "low": "Tief", "close": "Ende"}
    assert bars(read_bars(file, symbol="BTC/USDT", columns=named)) == WANTED[:1]
    with pytest.raises(ConfigError, match="has no column 'Anfang': it has 'Zeit'"):
        read_bars(file, symbol="BTC/USDT", columns=named | {"open": "Anfang"})


@pytest.mark.parametrize("row", ["1704067200000,100,110,90,105,3", "1;105;90;110;100;1704067200;7"])
def test_a_file_without_a_known_header_is_refused_with_the_header_to_add(tmp_path: Path, row: str) -> None:
    file = tmp_path / "p.csv"
    file.write_text(f"{row}\n")
    by = ";" if ";" in row else ","
    names = by.join(("timestamp", "open", "high", "low", "close", "volume", "symbol"))
    with pytest.raises(
        ConfigError, match=f"has no header.*add a first line that names its {row.count(by) + 1} columns.*{names}"
    ):
        read_bars(file, symbol="BTC/USDT")


def test_a_volume_in_the_quote_currency_is_not_taken_for_one_in_the_base(tmp_path: Path) -> None:
    file = tmp_path / "p.csv"
    file.write_text("time,open,high,low,close,Volume USD\n1704067200,100,110,90,105,3000\n")
    assert volumes(read_bars(file, symbol="BTC/USD")) == [None]


@pytest.mark.parametrize(
    ("name", "content", "error", "says"),
    [
        ("a.csv.gz", gzip.compress(PLAIN.encode(), mtime=0)[:-12], ContractError, "is damaged"),
        ("a.csv.zst", zstd(PLAIN.encode())[:-8], ContractError, "is damaged"),
        ("a.zip", zipped(PLAIN.encode(), "a.csv")[:-20], ContractError, "is damaged"),
        ("a.zip", zipped(PLAIN.encode(), "a.csv", "b.csv"), ConfigError, "holds 2 files: unpack it"),
        ("a.parquet", b"PAR1" + b"x" * 40, ContractError, "is damaged"),
        ("a.json", b"[[1,", ContractError, "is not JSON"),
        ("a.json", b'[{"time": 1}]', ConfigError, "holds no bars as ccxt gives them"),
        ("a.json", b"[[1704067200000, 1, 1, 1, 1, 1], 7]", ContractError, "line 2: 0 fields instead of 6"),
    ],
)
def test_a_file_that_is_not_what_it_looks_like_is_refused(
    tmp_path: Path, name: str, content: bytes, error: type[Exception], says: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(error, match=says):
        read_bars(tmp_path / name, symbol="BTC/USDT")


def test_an_unknown_volume_is_told_from_none(tmp_path: Path) -> None:
    file = tmp_path / "p.csv"
    file.write_text("time,open,high,low,close,volume\n1704067200,100,110,90,105,\n1704067260,105,106,104,104.5,0\n")
    assert volumes(read_bars(file, symbol="BTC/USD")) == [None, 0]
