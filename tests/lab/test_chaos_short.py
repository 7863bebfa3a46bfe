"""The short chaos run: a whole installation under every kind of fault, as a user starts it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.chaos.plan import SHORT, SINK_POINTS, WORKER_POINTS
from tests.newsproof.command import newsproof, processes_in

SEED = "20260104"


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(420)
def test_under_every_kind_of_fault_nothing_is_lost_nothing_is_there_twice_and_nothing_is_overspent(
    tmp_path: Path,
) -> None:
    arguments = ("chaos", "--short", "--seed", SEED, "--json")
    done = newsproof(*arguments, cwd=tmp_path, env={"TMPDIR": str(tmp_path)}, timeout_s=400, module="lab")
    assert done.returncode == 0, done.stdout + done.stderr
    outcome = json.loads(done.stdout.splitlines()[-1])
    dealt = {
        key: outcome[key] for key in ("kills", "broker_restarts", "zombies", "clickhouse_kills", "joins", "leaves")
    }
    assert dealt == {
        "kills": SHORT.kills,
        "broker_restarts": 1,
        "zombies": 1,
        "clickhouse_kills": 1,
        "joins": 1,
        "leaves": 1,
    }
    assert sum(outcome["kills_by_boundary"].values()) == SHORT.kills + SHORT.sink_kills + SHORT.research_kills
    assert set(outcome["kills_by_boundary"]) <= {*WORKER_POINTS, *SINK_POINTS}
    assert set(outcome["provider_faults"]) == {"timeout", "rate_limit", "unavailable", "garbage"}
    assert outcome["ended"] == outcome["cases"] >= SHORT.cases
    promises = ("lost", "duplicate_events", "duplicate_signals", "sink_lost", "sink_duplicates", "budget_overshoot")
    assert {key: outcome[key] for key in promises} == dict.fromkeys(promises, 0)
    assert 0 <= outcome["repeated_calls"] <= outcome["calls_in_flight_at_kills"]
    research = outcome["research"]
    assert (research["kills"], research["zombies"]) == (SHORT.research_kills, SHORT.research_zombies)
    assert research["ended_once"] == research["asked"] > research["watches"] > 0 == outcome["asked_again"]
    assert {"newsproof.answer_given", "newsproof.brief_written"} <= set(research["ends"])
    assert 0 <= research["repeated_calls"] <= research["calls_in_flight_at_kills"]
    assert outcome["offsets_past_open"] == 0 < outcome["offsets_checked"]
    assert processes_in(tmp_path) == []
    assert list(tmp_path.iterdir()) == []
