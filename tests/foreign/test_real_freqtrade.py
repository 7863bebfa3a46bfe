"""Our adapter, the pass-through strategy and the recipe of docs/bots.md against the real freqtrade, in dry run without internet.

The first run installs it into an environment of its own (about two minutes, 800 MB).
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from infra.embedded.child import ChildProcess, free_ports
from infra.embedded.kafka.jars import default_cache_dir
from schemas.errors import ConfigError, TransientError
from tests.infra.fakes.binance import FakeBinance
from tests.infra.fakes.freqtrade import PASSWORD, USERNAME, WALKED, adapter, order, walk

FREQTRADE = "freqtrade==2026.9"
STRATEGIES = Path(__file__).parents[2] / "examples" / "freqtrade"
# The first run installs it, which no test's time could hold.
pytestmark = [pytest.mark.foreign, pytest.mark.timeout(180, func_only=True)]


@pytest.fixture(scope="session")
def freqtrade() -> Path:
    """The program, installed at the first run."""
    place = default_cache_dir() / FREQTRADE.replace("==", "-")
    python, ready = place / "bin" / "python", place / "ready"
    if not ready.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", place], check=True)
        quiet = ("--quiet", "--disable-pip-version-check", "--no-input")
        subprocess.run([python, "-m", "pip", "install", *quiet, FREQTRADE], check=True)
        ready.touch()
    return place / "bin" / "freqtrade"


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


async def _is_ready(far: Any) -> bool:
    try:
        await asyncio.wait_for(far.check(), 5)
    except (ConfigError, TransientError, TimeoutError):
        return False
    return True
