"""The acceptance run: its verdicts on figures that were worked out by hand, and a whole run with scripted answers."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from newsproof.app import exits
from newsproof.evaluation.acceptance.measures import CaseMeasure, Measured
from newsproof.evaluation.acceptance.messages import acceptance_news
from newsproof.evaluation.acceptance.targets import verdicts
from tests.newsproof.command import newsproof, processes_in

SECONDS = {"recall": 0.1, "plan": 1.5, "search": 1.0, "synthesize": 2.0}


def case(seconds: float, cost_usd: float | None, *, path: str = "deep", unpriced: int = 0) -> CaseMeasure:
    return CaseMeasure(
        message="m", status="newsproof.signal_synthesized", path=path, took_ms=seconds * 1000, outcome="buy 0.8", calls=5,
        cost_usd=cost_usd, unpriced_calls=unpriced,
    )  # fmt: skip


def run(
    *cases: CaseMeasure, seconds: dict[str, float] | None = None, searches: float | None = 1.0, answered: int = 20
) -> Measured:
    return Measured(
        steps=(), cases=cases, seconds_by_step=SECONDS if seconds is None else seconds, first_searches=searches,
        searches_asked=20, searches_answered=answered,
    )  # fmt: skip


def missed(measured: Measured) -> list[str]:
    return [v.target for v in verdicts(measured) if not v.met]


def test_a_run_within_every_limit_meets_every_target() -> None:
    good = run(case(5.0, 0.01), case(9.0, 0.02), case(99.0, 9.0, path="preliminary"))
    assert missed(good) == []
    by_name = {v.target: v.measured for v in verdicts(good)}
    assert by_name["mean latency"] == pytest.approx(7.0)
    assert by_name["mean cost"] == pytest.approx(0.015)
    assert by_name["search success"] == 100.0


@pytest.mark.parametrize(
    ("measured", "target"),
    [
        (run(case(5.0, 0.05)), "mean cost"),
        (run(case(5.0, 0.01, unpriced=1)), "mean cost"),
        (run(case(8.0, 0.01)), "mean latency"),
        (run(case(5.0, 0.01), seconds={**SECONDS, "recall": 1.0}), "mean recall"),
        (run(case(5.0, 0.01), seconds={k: v for k, v in SECONDS.items() if k != "plan"}), "mean plan"),
        (run(case(5.0, 0.01), searches=1.1), "searches, first round"),
        (run(case(5.0, 0.01), answered=19), "search success"),
    ],
)
def test_each_target_is_missed_by_its_own_figure_alone(measured: Measured, target: str) -> None:
    assert missed(measured) == [target]


def test_a_run_without_a_deep_message_meets_no_target_of_deep_messages() -> None:
    assert missed(run(case(5.0, 0.01, path="preliminary"), seconds={}, searches=None))[:2] == [
        "mean cost",
        "mean latency",
    ]


def test_the_messages_are_of_every_kind_in_both_languages() -> None:
    items = acceptance_news(datetime.now(UTC))
    assert len({i.external_id for i in items}) == 16
    assert {i.language for i in items} == {"zh", "en"}
    assert {str(i.external_id).rpartition("-")[0] for i in items} >= {
        "rumour",
        "policy",
        "hack",
        "depeg",
        "airdrop",
        "macro",
    }


@pytest.mark.slow
def test_a_run_without_a_key_measures_every_message_and_says_that_it_is_simulated(tmp_path: Path) -> None:
    done = newsproof("acceptance", "--json", cwd=tmp_path)
    assert done.returncode in (exits.OK, exits.FINDING), done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["mode"].startswith("SIMULATED") and "SIMULATED" in done.stderr
    assert (report["messages"], report["failed"]) == (16, 0)
    assert {c["message"] for c in report["cases"] if c["path"] == "deep"} >= {
        "hack-zh",
        "hack-en",
        "depeg-zh",
        "depeg-en",
    }
    steps = {s["step"]: s for s in report["steps"]}
    assert steps["triage"]["calls"] == 32, "a check for copies and a judgement of each message"
    for name in ("triage", "plan", "synthesize"):
        assert steps[name]["input_tokens"] > 0 and steps[name]["cost_usd"] > 0 and steps[name]["p95_ms"] > 0
    assert {t["target"] for t in report["targets"]} == {
        *("mean cost", "mean latency", "mean recall", "mean plan", "mean search", "mean synthesize"),
        *("searches, first round", "search success"),
    }
    assert processes_in(tmp_path) == []
