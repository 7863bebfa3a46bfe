"""Our adapter, the pass-through strategy and the recipe of docs/bots.md against the real freqtrade, in dry run without internet.

The first run installs it into an environment of its own (about two minutes, 800 MB).
"""

from __future__ import annotations

import asyncio
import json
import zipfile
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from infra.embedded.child import ChildProcess, free_ports
from schemas.errors import ConfigError, TransientError
from tests.foreign_environments import environment_with
from tests.infra.fakes.binance import FakeBinance
from tests.infra.fakes.freqtrade import PASSWORD, USERNAME, WALKED, adapter, order, walk

FREQTRADE = "freqtrade==2026.9"
STEP = pd.Timedelta(minutes=5)
STRATEGIES = Path(__file__).parents[2] / "examples" / "freqtrade"
# The first run installs it, which no test's time could hold.
pytestmark = [pytest.mark.foreign, pytest.mark.timeout(180, func_only=True)]


@pytest.fixture(scope="session")
def freqtrade() -> Path:
    """The program, installed at the first run."""
    return environment_with(FREQTRADE) / "freqtrade"


def config(place: Path, exchange: str, port: int, **changes: Any) -> Path:
    """Write a configuration as docs/bots.md shows it, with the small exchange in place of Binance."""
    pricing = {"price_side": "other", "use_order_book": True, "order_book_top": 1}
    urls = dict.fromkeys(("public", "private", "v1", "sapi"), f"{exchange}/api/v3")
    written = {
        "dry_run": True, "max_open_trades": 3, "stake_currency": "USDT", "stake_amount": 100, "force_entry_enable": True,
        "initial_state": "running", "db_url": f"sqlite:///{place}/trades.sqlite", "user_data_dir": str(place),
        "strategy": "NewsproofPassThrough", "strategy_path": str(STRATEGIES), "timeframe": "5m",
        "entry_pricing": pricing, "exit_pricing": pricing, "pairlists": [{"method": "StaticPairList"}],
        "internals": {"process_throttle_secs": 1},
        "exchange": {
            "name": "binance", "key": "", "secret": "", "pair_whitelist": ["BTC/USDT", "ETH/USDT"], "enable_ws": False,
            "ccxt_config": {"urls": {"api": urls}, "options": {"fetchMarkets": {"types": ["spot"]}}},
        },
        "api_server": {
            "enabled": True, "listen_ip_address": "127.0.0.1", "listen_port": port, "username": USERNAME,
            "password": PASSWORD, "jwt_secret_key": "0" * 40, "ws_token": "0" * 20, "verbosity": "error",
        },
        **changes,
    }  # fmt: skip
    file = place / "config.json"
    file.write_text(json.dumps(written), "utf-8")
    return file


async def test_entries_and_exits_are_as_our_own_server_answers_them_and_a_tag_is_never_entered_twice(
    freqtrade: Path, tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    async with FakeBinance() as exchange:
        command = [str(freqtrade), "trade", "--config", str(config(tmp_path, exchange.url, port))]
        far, log = adapter(f"http://127.0.0.1:{port}"), tmp_path / "freqtrade.log"
        for begun in range(2):
            child = ChildProcess("freqtrade", command, log_file=log)
            child.start()
            try:
                await child.wait_until(lambda: _is_ready(far), timeout_s=90)
                if begun == 0:
                    assert await walk(far) == WALKED
                else:  # its strategy has forgotten the tag, and its table of trades has not
                    assert (await far.perform(order("enter", "e1"))).outcome == "refused"
                    assert (await far.perform(order("enter", "e6"))).outcome == "delivered"
                    assert (await far.perform(order("exit", "e6"))).outcome == "delivered"
            finally:
                await child.stop()
        await far.close()
    assert "Dry run is enabled" in log.read_text("utf-8")


async def test_a_backtest_on_exported_signals_trades_between_available_at_and_the_retraction(
    freqtrade: Path, tmp_path: Path
) -> None:
    day = pd.Timestamp("2024-06-05T00:00Z")
    prices = [100.0 + n for n in range(200)]
    bars = [[int((day + n * STEP).timestamp() * 1000), p, p + 1, p, p + 1, 10.0] for n, p in enumerate(prices)]
    data = tmp_path / "data"
    data.mkdir()
    (data / "BTC_USDT-5m.json").write_text(json.dumps(bars), "utf-8")
    given = {
        "signal_id": "a", "asset": "BTC", "verdict": "confirmed", "confidence": 0.8, "provider_mode": "live",
        "valid_until": day + pd.Timedelta(days=1),
    }  # fmt: skip
    minute = pd.Timedelta(minutes=1)
    rows = [
        {**given, "revision": 1, "available_at": day + 303 * minute, "action": "buy", "stage": "final"},
        {**given, "revision": 2, "available_at": day + 411 * minute, "action": "observe", "stage": "retracted"},
    ]
    pd.DataFrame(rows).to_parquet(tmp_path / "signals.parquet")
    async with FakeBinance() as exchange:
        file = config(
            tmp_path, exchange.url, 8080, strategy="NewsproofSignals", newsproof_signals=str(tmp_path / "signals.parquet"),
            dataformat_ohlcv="json", datadir=str(data),
        )  # fmt: skip
        options = [
            "--pairs",
            "BTC/USDT",
            "--export",
            "trades",
            "--backtest-directory",
            str(data),
            "--datadir",
            str(data),
        ]
        ended = await asyncio.create_subprocess_exec(
            str(freqtrade), "backtesting", "--config", str(file), *options,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        said, _ = await ended.communicate()
    made = list(data.glob("backtest-result-*.zip"))
    assert len(made) == 1, said.decode()[-3000:]
    with zipfile.ZipFile(made[0]) as files:
        [trade] = json.loads(files.read(f"{made[0].stem}.json"))["strategy"]["NewsproofSignals"]["trades"]
    # Known at 05:03, so the candle that closes at 05:05 says enter, and the next one's open fills; likewise at 06:51.
    assert (trade["open_date"], trade["close_date"]) == ("2024-06-05 05:05:00+00:00", "2024-06-05 06:55:00+00:00")
    assert (trade["open_rate"], trade["close_rate"], trade["exit_reason"]) == (prices[61], prices[83], "exit_signal")


async def _is_ready(far: Any) -> bool:
    try:
        await asyncio.wait_for(far.check(), 5)
    except (ConfigError, TransientError, TimeoutError):
        return False
    return True
