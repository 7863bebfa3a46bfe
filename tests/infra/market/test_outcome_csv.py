"""OHLCV files: what is read, what is refused, line by line, and that nothing of a file with a wrong line is used."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from infra.market.outcomes.bar_files import read_bars
from infra.market.outcomes.bar_rows import epoch_ms_of
from infra.market.outcomes.synthetic import bundled_prices, sample_events, synthetic_csv
from schemas.errors import ConfigError, ContractError

HEADER = "timestamp,open,high,low,close,volume\n"
GOOD = "2024-01-01T00:00:00Z,100,110,90,105,3\n"


def file(directory: Path, text: str, name: str = "prices.csv") -> Path:
    path = directory / name
    path.write_text(text, "utf-8")
    return path


@pytest.mark.parametrize(
    "written",
    [
        "2024-01-01T00:00:00Z", "2024-01-01 00:00:00", "2024-01-01", "2024-01-01T08:00:00+08:00", "1704067200",
        "1704067200000", "1704067200000000", "1704067200.0",
    ],
)  # fmt: skip
def test_a_time_is_read_however_exchanges_write_it(written: str) -> None:
    assert epoch_ms_of(written) == 1_704_067_200_000


def test_a_time_between_two_milliseconds_is_rounded_up_never_to_before_the_news() -> None:
    assert epoch_ms_of("1704067200000001") == epoch_ms_of("2024-01-01T00:00:00.000001Z") == 1_704_067_200_001


def test_columns_come_in_any_order_and_bars_too(tmp_path: Path) -> None:
    text = "close,Symbol,low,high,open,volume,Unix\n2,ethusdt,1,3,1.5,0,1704067500\n2,ethusdt,1,3,1.25,0,1704067200\n"
    found = read_bars(file(tmp_path, "﻿" + text), venue="binance")
    (one,) = found.series
    assert (one.symbol, one.venue, found.bars, found.source) == ("ETH/USDT", "binance", 2, "csv:prices.csv")
    assert (list(one.times_ms), list(one.opens)) == ([1_704_067_200_000, 1_704_067_500_000], [1.25, 1.5])


def test_a_file_of_several_markets_is_several_series(tmp_path: Path) -> None:
    rows = "".join(GOOD.strip() + f",{symbol}\n" for symbol in ("BTC/USDT", "ETH-USD", "BTCUSDT"))
    found = read_bars(file(tmp_path, HEADER.strip() + ",symbol\n" + rows))
    assert {s.symbol: len(s.opens) for s in found.series} == {"BTC/USDT": 1, "ETH/USD": 1}


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("yesterday,1,1,1,1,1", "line 3: timestamp is 'yesterday', which is no time"),
        ("2024-01-01T00:05:00Z,1,1,1,1", "line 3: 5 fields instead of 6"),
        ("2024-01-01T00:05:00Z,x,1,1,1,1", "line 3: open is 'x', which is no number"),
        ("2024-01-01T00:05:00Z,1,1,1,,1", "line 3: close is '', which is no number"),
        ("2024-01-01T00:05:00Z,nan,1,1,1,1", "line 3: open is 'nan', which is no price"),
        ("2024-01-01T00:05:00Z,1,inf,1,1,1", "line 3: high is 'inf', which is no price"),
        ("2024-01-01T00:05:00Z,1,2,0,1,1", "line 3: a price of 0"),
        ("2024-01-01T00:05:00Z,5,4,3,3.5,1", "line 3: open 5 and close 3.5 do not lie between low 3 and high 4"),
        ("2024-01-01T00:05:00Z,1,1,1,1,-1", "line 3: a volume below 0"),
        ("2024-01-01T00:00:00Z,101,110,90,105,3", "line 3: another price of BTC/USDT for the moment of line 2"),
    ],
)
def test_a_wrong_line_is_named_and_nothing_is_imported(tmp_path: Path, line: str, says: str) -> None:
    with pytest.raises(ContractError, match="nothing was imported, 1 lines are wrong") as told:
        read_bars(file(tmp_path, HEADER + GOOD + line + "\n"), symbol="BTC/USDT")
    assert says in str(told.value)


def test_of_many_wrong_lines_twenty_are_told_and_the_rest_counted(tmp_path: Path) -> None:
    with pytest.raises(ContractError) as told:
        read_bars(file(tmp_path, HEADER + "x,1,1,1,1,1\n" * 25), symbol="BTC/USDT")
    assert str(told.value).count("\n  line ") == 20
    assert "… and 5 more" in str(told.value)


def test_the_same_bar_twice_counts_once(tmp_path: Path) -> None:
    (one,) = read_bars(file(tmp_path, HEADER + GOOD + GOOD), symbol="BTC/USDT").series
    assert len(one.times_ms) == 1


BESIDE = {0: "100,101,99,100", 1: "101,102,100,101", 2: "102,103,101,102", 3: "103,104,102,103"}


def minutes(bars: dict[int, str]) -> str:
    return HEADER + "".join(f"2024-01-01T00:0{n}:00Z,{prices},1\n" for n, prices in bars.items())


@pytest.mark.parametrize("place", [0, 1, 3])
@pytest.mark.parametrize(
    "slipped", ["10300,10400,10200,10300", "1.01,1.02,0.9,1", "101,10400,100,101", "101,102,0.9,101"]
)
def test_a_bar_100_times_off_those_beside_it_is_refused_by_its_line(tmp_path: Path, place: int, slipped: str) -> None:
    with pytest.raises(ContractError, match=rf"line {place + 2}: BTC/USDT at .* 100 times off the bars beside it"):
        read_bars(file(tmp_path, minutes(BESIDE | {place: slipped})), symbol="BTC/USDT")


def test_a_price_that_moves_a_hundredfold_and_stays_there_is_a_price(tmp_path: Path) -> None:
    crash = {n: "100,101,99,100" if n < 3 else "0.5,0.6,0.4,0.5" for n in range(6)}
    assert read_bars(file(tmp_path, minutes(crash)), symbol="LUNA/USDT").bars == 6


@pytest.mark.parametrize(
    ("text", "symbol", "says"),
    [
        ("", "BTC/USDT", "is empty"),
        ("# only a comment\n", "BTC/USDT", "is empty"),
        ("timestamp,open,high\n", "BTC/USDT", "names no low, close; it has 'timestamp', 'open', 'high'"),
        ("Zeit,open,high,low,close\n", "BTC/USDT", "--columns timestamp=…"),
        ("1704067200,1,1,1,1\n", "BTC/USDT", "names its 5 columns, such as timestamp,open"),
        (HEADER + GOOD, None, "--symbol BTC/USDT"),
        (HEADER + GOOD, "BTC", "names no market"),
    ],
)
def test_a_file_that_cannot_be_understood_at_all_says_what_to_write(
    tmp_path: Path, text: str, symbol: str | None, says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        read_bars(file(tmp_path, text), symbol=symbol)


def test_a_missing_file_and_one_that_is_no_text_are_told_plainly(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_bars(tmp_path / "none.csv", symbol="BTC/USDT")
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ContractError, match="UTF-8"):
        read_bars(tmp_path / "binary.csv", symbol="BTC/USDT")


def test_a_header_without_bars_is_read_as_no_series(tmp_path: Path) -> None:
    assert read_bars(file(tmp_path, HEADER), symbol="BTC/USDT").series == ()


def test_the_synthetic_file_is_labelled_and_is_what_its_command_writes() -> None:
    path = bundled_prices()
    text = path.read_text("utf-8")
    assert "synthetic" in path.name
    assert text.startswith("# SYNTHETIC")
    assert text == synthetic_csv()
    assert text != synthetic_csv(seed=8)
    assert read_bars(path).source == "synthetic:synthetic_prices.csv"


def test_the_synthetic_prices_cover_every_sample_event_at_every_horizon() -> None:
    prices = {s.symbol: s for s in read_bars(bundled_prices()).series}
    events = sample_events()
    assert len(events) == 42
    for asset, at in events:
        times = set(prices[f"{asset}/USDT"].times_ms)
        entry = at if at.minute % 5 == 0 else at + timedelta(minutes=5 - at.minute % 5)
        for s in (0, 300, 3600, 14400, 86400):
            assert round((entry + timedelta(seconds=s)).timestamp() * 1000) in times, (asset, at, s)
    assert events[0][1] == datetime(2020, 7, 15, 14, tzinfo=UTC)
