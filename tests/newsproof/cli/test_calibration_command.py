"""`newsproof calibration`: fitted from real ClickHouse, appended to real Kafka, and shown with what is missing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from infra.clickhouse.client import Address, ClickHouse, connect
from infra.kafka.topics import KafkaAddress
from newsproof.app import exits
from newsproof.cli.main import app
from schemas.topics import Topics
from tests.conftest import DATABASE
from tests.newsproof.app.test_calibrated_cases import STORIES, history

Run = Callable[..., str]


@pytest.fixture
def calibration(
    address: KafkaAddress, topics: Topics, migrated: Address, clickhouse: ClickHouse, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Run:  # fmt: skip
    """Run a subcommand in an installation with the tests' servers, and return its output."""
    monkeypatch.chdir(tmp_path)
    found = {
        **address.as_environment(),
        "CLICKHOUSE_URL": f"http://{migrated.host}:{migrated.port}",
        "CLICKHOUSE_DATABASE": DATABASE,
        "TOPIC_PARTITIONS": "1",
        "NEWSPROOF_TOPIC_PREFIX": topics.prefix,
    }
    for name, value in found.items():
        monkeypatch.setenv(name, value)

    def run(*args: str, expect: int = 0) -> str:
        done = CliRunner().invoke(app, ["calibration", *args])
        failed = done.exception is not None and not isinstance(done.exception, SystemExit)
        assert (exits.status_of(done.exception) if failed else done.exit_code) == expect, str(done.exception)
        return done.stdout

    return run


def filled(at: Address) -> None:
    async def fill() -> None:
        async with connect(at, database=DATABASE) as client:
            await history(client, datetime.now(UTC))

    asyncio.run(fill())


def test_a_map_is_fitted_appended_and_shown_with_what_confidences_become(
    calibration: Run, migrated: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(migrated)
    dry = calibration("fit", "--dry-run")
    assert "Dry run: nothing was appended." in dry and "the claim stands for 14 days" in dry
    assert calibration("show", "--json") == "null\n"

    said = calibration("fit")
    assert "Appended. Only live workers use it; this installation is set to offline." in said
    shown = calibration("show")
    assert "raw confidence" in shown and "95%" in shown and "the price moves 10 bp within 24 h" in shown
    assert "No curve for “the price moves 10 bp within 1 h”: 0 of 50 stories with a known outcome." in shown
    view = json.loads(calibration("show", "--json"))
    assert view["id"] in shown and view["sell_from"] is None
    by_target = {one["target"]: one for one in view["targets"]}
    day, hour = by_target["moved:86400"], by_target["moved:3600"]
    assert (day["stories"], day["missing"], hour["stories"], hour["missing"]) == (STORIES, 0, 0, 50)
    (curve,) = day["curves"]
    assert [one["confidence"] for one in curve["points"]] == [0.5, 0.6, 0.7, 0.8, 0.9, 0.95]
    assert all(one["low"] < one["probability"] < one["high"] for one in curve["points"])
    last = curve["points"][-1]
    assert f"{last['probability']:.0%} ({last['low']:.0%}–{last['high']:.0%})" in shown
    assert last["probability"] < 0.8, "half of them came true"

    monkeypatch.setenv("CALIBRATION_MAX_FALSE_SHARE", "0.9")
    assert "Selling rule: orders below confidence 0.5 are removed." in calibration("fit", "--dry-run")
    monkeypatch.setenv("CALIBRATION_MAX_FALSE_SHARE", "0.01")
    assert "Selling rule: every order is removed" in calibration("fit", "--dry-run")


def test_without_outcomes_it_says_how_many_stories_are_missing(calibration: Run) -> None:
    assert "No map was fitted yet." in calibration("show")
    said = calibration("fit")
    assert "No curve as of " in said and "No curve for “the claim stands for 14 days”: 0 of 50 stories" in said
    view = json.loads(calibration("show", "--json"))
    as_of = datetime.fromisoformat(view["as_of"])
    assert timedelta() <= datetime.now(UTC) - as_of < timedelta(minutes=5)
    assert all(one["curves"] == [] and one["missing"] == 50 for one in view["targets"])
