"""`newsproof export signals`: from when on each revision could be known, and the recipe for freqtrade that reads it."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from runpy import run_path
from types import ModuleType
from typing import Any

import pandas as pd
import pytest

from infra.clickhouse.client import ClickHouse
from newsproof.app.invocation import Invocation
from newsproof.cli.read import export
from newsproof.cli.read.export import write_signals
from schemas import events as ev
from schemas.errors import ConfigError
from schemas.news import News
from tests import builders
from tests.infra.clickhouse.clickhouse_samples import NOW, fill, fill_signals, published, record, seconds, signal

EXAMPLES = Path(__file__).parents[3] / "examples"
PAST, DENIED = NOW - timedelta(days=900), NOW - timedelta(days=899)


@pytest.fixture
async def tables(clickhouse: ClickHouse, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ClickHouse]:
    """A live signal with two revisions and a retraction, and the same of news of the past, denied a day later."""

    @asynccontextmanager
    async def found(_: Invocation, *, admin: bool) -> Any:
        yield clickhouse

    monkeypatch.setattr(export, "database", found)
    received = (
        ("live", NOW, True),
        ("denial", NOW + seconds(90), True),
        ("past", PAST, False),
        ("late", DENIED, False),
    )
    for case, at, is_live in received:
        news = News(source="desk", text=case, published_at=at, received_at=at if is_live else None)
        opened = round((at if is_live else NOW).timestamp() * 1000)
        opening = builders.received(news)
        await fill(clickhouse, [record(opening, case=case, event_id=f"open-{case}", appended_ms=opened)])
    denying = (("cause-live-3", "denial", "live"), ("cause-past-2", "late", "past"))
    await fill(clickhouse, [
        record(
            ev.RetractionFound(signal_id=id, of_case=id, kind="retracted", reason=""), case=case, event_id=event, offset=1
        )
        for event, case, id in denying
    ])  # fmt: skip
    await fill(clickhouse, [
        record(ev.CaseDropped(reason="spam", detail=""), case=id, event_id=f"cause-{id}-{n}", offset=n + 1)
        for id, n in (("live", 1), ("live", 2), ("past", 1))
    ])  # fmt: skip

    def one(id: str, revision: int, **fields: Any) -> Any:
        return signal(signal_id=id, case_id=id, revision=revision, asset="BTC", **fields)

    order = {"action": "buy", "verdict": "confirmed", "risk_flags": ("a", "b")}
    await fill_signals(
        clickhouse,
        published(one("live", 1, stage="preliminary"), emitted_at=NOW + seconds(2)),
        published(one("live", 2, **order), emitted_at=NOW + seconds(9)),
        published(one("live", 3, stage="retracted"), emitted_at=NOW + seconds(99)),
        published(one("past", 1, **order), emitted_at=NOW + seconds(5)),
        published(one("past", 2, stage="retracted"), emitted_at=NOW + seconds(6)),
    )
    yield clickhouse


def times(file: Path) -> list[tuple[str, int, datetime, datetime, bool]]:
    found = pd.read_parquet(file) if file.suffix == ".parquet" else pd.read_csv(file)
    at, until = (pd.to_datetime(found[name], utc=True).dt.to_pydatetime() for name in ("available_at", "valid_until"))
    return list(zip(found["signal_id"], found["revision"], at, until, found["live"], strict=True))


@pytest.mark.parametrize("ending", [".parquet", ".csv"])
async def test_a_revision_is_available_when_it_was_on_the_topic_or_when_the_news_of_the_past_could_be_known(
    tables: ClickHouse, tmp_path: Path, ending: str
) -> None:
    file = tmp_path / f"signals{ending}"
    done = await write_signals(Invocation(), file, point_in_time=True)
    assert (done.rows, done.live) == (5, 3)
    hour, until = timedelta(hours=1), signal().valid_until
    assert times(file) == [
        ("past", 1, PAST, PAST + hour, False),
        ("past", 2, DENIED, DENIED + hour, False),
        ("live", 1, NOW + seconds(2), until, True),
        ("live", 2, NOW + seconds(9), until, True),
        ("live", 3, NOW + seconds(99), until, True),
    ]
    with pytest.raises(ConfigError, match="exists: name another file, or add --overwrite"):
        await write_signals(Invocation(), file, point_in_time=False)
    done = await write_signals(Invocation(), file, point_in_time=False, overwrite=True)
    assert [row[:2] for row in times(file)] == [("past", 2), ("live", 3)]
    with pytest.raises(ConfigError, match=r"name a file that ends in \.parquet or \.csv"):
        await write_signals(Invocation(), tmp_path / "signals.xlsx", point_in_time=True)


def test_the_recipe_for_freqtrade_enters_from_available_at_on_and_leaves_at_the_retraction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    strategy = ModuleType("freqtrade.strategy")
    strategy.IStrategy = object  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "freqtrade", ModuleType("freqtrade"))
    monkeypatch.setitem(sys.modules, "freqtrade.strategy", strategy)
    recipe = run_path(str(EXAMPLES / "freqtrade" / "NewsproofSignals.py"))["NewsproofSignals"]()
    day = pd.Timestamp("2024-06-05T12:00Z")

    def row(id: str, revision: int, minute: float, action: str, **fields: Any) -> dict[str, Any]:
        at = day + pd.Timedelta(minutes=minute)
        return {
            "signal_id": id, "revision": revision, "available_at": at, "valid_until": day + pd.Timedelta(minutes=60),
            "action": action, "asset": "BTC", "stage": "final", "verdict": "confirmed", "confidence": 0.8,
            "provider_mode": "live", **fields,
        }  # fmt: skip

    rows = [
        row("a", 1, 3, "observe", verdict="unconfirmed"),
        row("a", 2, 7, "buy"),
        row("a", 3, 12, "buy"),  # once more: no second entry
        row("a", 4, 20, "observe", stage="retracted"),  # at a candle's close, to the second
        row("b", 1, 26, "buy", valid_until=day + pd.Timedelta(minutes=36)),
        row("c", 1, 41, "buy"),
        row("d", 1, 46, "sell"),
        row("e", 1, 41, "buy", asset="ETH"),
        row("f", 1, 41, "buy", confidence=0.6),
        row("g", 1, 1, "buy", provider_mode="offline"),
    ]
    candles = pd.DataFrame({"date": pd.date_range(day, periods=12, freq="5min")})
    for ending in ("parquet", "csv"):
        file, frame = tmp_path / f"signals.{ending}", pd.DataFrame(rows)
        frame.to_parquet(file) if ending == "parquet" else frame.to_csv(file, index=False)
        recipe.config = {"newsproof_signals": str(file)}
        made = recipe.populate_entry_trend(candles.copy(), {"pair": "BTC/USDT"})
        # Candle n closes at minute 5n + 5. A row's columns are acted on then.
        assert [n for n, enters in enumerate(made["enter_long"]) if enters] == [1, 5, 8]
        assert [n for n, leaves in enumerate(made["exit_long"]) if not leaves] == [1, 2, 5, 6, 8]
    recipe.config["newsproof_offline"] = True
    assert recipe.populate_entry_trend(candles.copy(), {"pair": "BTC/USDT"})["enter_long"][0] == 1
