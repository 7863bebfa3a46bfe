"""The hostile run in its small form: the whole installation among hostile records over all topics."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.settings import load_settings
from lab.hostile.generator import SHARES, Generator
from lab.hostile.main import settings_for
from lab.hostile.run import hostile_run

SEED = 20261122


@pytest.mark.long
@pytest.mark.slow
async def test_nothing_hostile_stops_holds_up_or_leaks_through_the_pipeline(tmp_path: Path) -> None:
    said: list[str] = []
    outcome = await hostile_run(settings_for(load_settings(), tmp_path), records=3000, seed=SEED, say=said.append)
    assert outcome.findings == [], f"{outcome.wrong} {said[-5:]}"
    assert sum(outcome.fates.values()) == 3000
    assert {kind.split(":")[0] for kind in outcome.kinds} == SHARES.keys(), "every topic had its share"
    assert {"case", "dead_letter", "failed_case", "passed_by", "foreign"} <= outcome.fates.keys()
    assert outcome.good > 0 and outcome.rows_found > 0


def test_a_seed_gives_the_same_records_in_whatever_order_they_are_asked_for() -> None:
    one, other = (Generator(7, partitions=4, config_hash="0" * 32) for _ in range(2))
    forwards = [one.record(n) for n in range(300)]
    backwards = [other.record(n) for n in reversed(range(300))]
    assert forwards == backwards[::-1]
    assert Generator(8, partitions=4, config_hash="0" * 32).record(0) != forwards[0]
