"""`newsproof calibration`: fitted from real ClickHouse, appended to real Kafka, and shown with what is missing."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from infra.clickhouse.client import Address, ClickHouse, connect
from tests.conftest import DATABASE
from tests.newsproof.app.test_calibrated_cases import STORIES, history
from tests.newsproof.conftest import Run


@pytest.fixture
def calibration(run: Run, migrated: Address, clickhouse: ClickHouse) -> Run:
    """Run a subcommand in an installation with the tests' servers, and return its output."""
    at = {"CLICKHOUSE_URL": f"http://{migrated.host}:{migrated.port}", "CLICKHOUSE_DATABASE": DATABASE}
    return partial(run, "calibration", **at, TOPIC_PARTITIONS="1")


def filled(at: Address) -> None:
    async def fill() -> None:
        async with connect(at, database=DATABASE) as client:
            await history(client, datetime.now(UTC))

    asyncio.run(fill())


def test_a_map_is_fitted_appended_and_shown_with_what_confidences_become(calibration: Run, migrated: Address) -> None:
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

    for share, rule in (("0.9", "orders below confidence 0.5 are removed."), ("0.01", "every order is removed")):
        assert f"Selling rule: {rule}" in calibration("fit", "--dry-run", CALIBRATION_MAX_FALSE_SHARE=share)


def test_without_outcomes_it_says_how_many_stories_are_missing(calibration: Run) -> None:
    assert "No map was fitted yet." in calibration("show")
    said = calibration("fit")
    assert "No curve as of " in said and "No curve for “the claim stands for 14 days”: 0 of 50 stories" in said
    view = json.loads(calibration("show", "--json"))
    as_of = datetime.fromisoformat(view["as_of"])
    assert timedelta() <= datetime.now(UTC) - as_of < timedelta(minutes=5)
    assert all(one["curves"] == [] and one["missing"] == 50 for one in view["targets"])
