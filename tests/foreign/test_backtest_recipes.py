"""The recipes of docs/bots.md for vectorbt and Nautilus, run as they stand there, each in an environment of its own.

The first run installs them (about 700 MB each).
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.foreign_environments import VECTORBT, environment_with

NAUTILUS = "nautilus_trader==1.221.0"
PAGE = Path(__file__).parents[2] / "docs" / "bots.md"
COLUMNS = "signal_id,revision,asset,action,stage,verdict,confidence,provider_mode,available_at,valid_until"
DAY = "2024-06-05"
SIGNALS = f"""{COLUMNS}
a,1,BTC,buy,final,confirmed,0.8,live,{DAY} 05:03:00.000,{DAY} 20:00:00.000
a,2,BTC,observe,retracted,confirmed,0,live,{DAY} 06:51:00.500,{DAY} 20:00:00.000
weak,1,BTC,buy,final,confirmed,0.6,live,{DAY} 08:00:00.000,{DAY} 20:00:00.000
offline,1,BTC,buy,final,confirmed,0.9,offline,{DAY} 08:00:00.000,{DAY} 20:00:00.000
other,1,ETH,buy,final,confirmed,0.9,live,{DAY} 08:00:00.000,{DAY} 20:00:00.000
b,1,BTC,buy,final,likely,0.7,live,{DAY} 09:00:00.000,{DAY} 12:00:00.000
against,1,BTC,sell,final,confirmed,0.9,live,{DAY} 10:02:00.000,{DAY} 10:17:00.000
"""
# A run of bars whose open at minute n of the day is 100 + n / 5.
BARS = "open_at,open,close\n" + "".join(
    f"{DAY} {n // 12:02}:{n % 12 * 5:02}:00+00:00,{100 + n},{100.5 + n}\n" for n in range(200)
)
VECTORBT_ENDS = """
names = {"Entry Timestamp": "entered", "Exit Timestamp": "left", "Avg Entry Price": "price", "Avg Exit Price": "last"}
trades.rename(columns=names)[list(names.values())].astype(str).to_json("found.json", orient="values")
"""
NAUTILUS_ENDS = """
import json
from pathlib import Path

from nautilus_trader.backtest.engine import BacktestEngine
from nautilus_trader.model.data import DataType
from nautilus_trader.model.identifiers import ClientId
from nautilus_trader.trading.strategy import Strategy

heard = []


class Listener(Strategy):
    def on_start(self):
        self.subscribe_data(DataType(NewsproofSignal), client_id=ClientId("NEWSPROOF"))

    def on_data(self, data):
        heard.append((data.signal_id, data.revision, data.action, str(self.clock.utc_now())))


engine = BacktestEngine()
engine.add_strategy(Listener())
engine.add_data(ParquetDataCatalog("catalog").custom_data(NewsproofSignal), client_id=ClientId("NEWSPROOF"))
engine.run()
Path("found.json").write_text(json.dumps(heard))  # its own lines are on standard output
"""
# The first run installs, which no test's time could hold.
pytestmark = [pytest.mark.foreign, pytest.mark.timeout(600)]


def run(package: str, imports: str, ends: str, place: Path) -> Any:
    """Run the page's block that imports this, with an end that writes ``found.json``; return what is in that."""
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    (recipe,) = (one for one in blocks if imports in one)
    (place / "signals.csv").write_text(SIGNALS, "utf-8")
    (place / "BTC.csv").write_text(BARS, "utf-8")
    (place / "recipe.py").write_text(recipe + ends, "utf-8")
    python = environment_with(package) / "python"
    done = subprocess.run([python, "recipe.py"], check=False, cwd=place, capture_output=True, text=True, env={})
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads((place / "found.json").read_text("utf-8"))


def test_vectorbt_holds_a_live_order_from_the_first_bar_that_could_know_it(tmp_path: Path) -> None:
    trades = run(VECTORBT, "vectorbt", VECTORBT_ENDS, tmp_path)
    assert [(*times, float(price), float(last)) for *times, price, last in trades] == [
        # Known at 05:03, so the bar of 05:05 is the first; retracted after 06:51.
        (f"{DAY} 05:05:00+00:00", f"{DAY} 06:55:00+00:00", 161.0, 183.0),
        # A bar that opens at the very time knows it. The opposite order of 10:02 interrupts it, and it ends at 12:00.
        (f"{DAY} 09:00:00+00:00", f"{DAY} 10:05:00+00:00", 208.0, 221.0),
        (f"{DAY} 10:20:00+00:00", f"{DAY} 12:00:00+00:00", 224.0, 244.0),
    ]


def test_nautilus_hands_each_revision_over_when_a_bot_could_know_it(tmp_path: Path) -> None:
    heard = run(NAUTILUS, "nautilus_trader", NAUTILUS_ENDS, tmp_path)
    assert [tuple(one) for one in heard if one[0] in ("a", "b")] == [
        ("a", 1, "buy", f"{DAY} 05:03:00+00:00"),
        ("a", 2, "observe", f"{DAY} 06:51:00.500000+00:00"),
        ("b", 1, "buy", f"{DAY} 09:00:00+00:00"),
    ]
    assert len(heard) == SIGNALS.count("\n") - 1
