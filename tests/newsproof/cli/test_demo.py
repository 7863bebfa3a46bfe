"""The demo from one end to the other, on real servers: what it prints, what it keeps, and that nothing outlives it."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import orjson
import psutil
import pytest

from infra.offline.newsroom.newsroom import script
from infra.offline.sample_news import sample_news
from infra.settings import Settings
from newsproof.app import exits
from newsproof.app.servers import servers
from schemas.signals import ACTED_ON, Action, Stage, Verdict
from tests.newsproof.command import CHECKOUT, COMMAND, environment, invoked, newsproof, processes_in

pytestmark = pytest.mark.slow

LABELS = {"truth", "what_happened", "official_domain", "asset", "event_type", "corrects"}
FIELDS = {
    *("published", "cases", "signals", "dropped", "degraded", "dead_letters", "lost", "duplicates", "seconds"),
    *("false_items", "false_actioned", "false_searchable", "false_searched", "true_items", "true_confirmed"),
}


def test_the_sample_is_in_the_order_of_publication_and_without_its_labels() -> None:
    items = sample_news()
    assert len(items) == 42
    assert items == sorted(items, key=lambda news: news.published_at)
    rows = [orjson.loads(line) for line in (CHECKOUT / "infra/offline/sample/history.jsonl").read_bytes().splitlines()]
    for item in items:
        row = next(row for row in rows if row["id"] == item.external_id)
        assert (item.source, item.language, item.text) == ("history", row["lang"], row["text"])
        assert not item.extra and not item.unknown
    assert set().union(*rows) >= LABELS


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """A directory where the demo ran to its end, and what it printed."""
    directory = tmp_path_factory.mktemp("demo")
    # Settings for another place must not lead the demo there.
    (directory / ".env").write_text("KAFKA_BOOTSTRAP_SERVERS=127.0.0.1:1\nCLICKHOUSE_URL=http://127.0.0.1:1\n")
    done = newsproof("demo", "--json", cwd=directory)
    (directory / ".env").unlink()
    return directory, done


Finished = tuple[Path, subprocess.CompletedProcess[str]]


def test_it_ends_well_with_one_line_of_json(finished: Finished) -> None:
    _, done = finished
    assert done.returncode == exits.OK, done.stderr
    (line,) = done.stdout.splitlines()
    summary = json.loads(line)
    assert set(summary) == FIELDS
    assert (summary["published"], summary["cases"]) == (42, 42)
    assert (summary["lost"], summary["duplicates"], summary["dead_letters"]) == (0, 0, 0)
    assert summary["signals"] + summary["dropped"] == 42
    assert 0 < summary["seconds"] < 60
    assert [summary[name] for name in ("false_items", "false_searchable", "true_items")] == [11, 9, 26]
    assert summary["false_actioned"] == 0
    assert 0 < summary["false_searched"] <= 11 and 0 < summary["true_confirmed"] <= 26
    assert "OFFLINE" in done.stderr and "PHASE1_ROLLOUT_PERCENTAGE=1.0" in done.stderr


def test_nothing_that_it_started_is_left(finished: Finished) -> None:
    directory, _ = finished
    assert processes_in(directory) == []


def test_the_audit_finds_the_demos_log_afterwards_and_it_is_clean(finished: Finished) -> None:
    directory, _ = finished
    done = invoked("audit", "--json", cwd=directory)
    assert done.returncode == exits.OK, done.stderr
    report = json.loads(done.stdout)
    assert (report["news"], report["cases"], report["lost"], report["open"]) == (42, 42, 0, 0)


@pytest.fixture(scope="module")
def reopened(finished: Finished) -> Iterator[Path]:
    """The demo's directory with its servers running again, as after `demo --keep`: commands find them."""
    directory, _ = finished
    data = directory / ".data" / "demo"
    with asyncio.Runner() as runner:
        running = servers(Settings(_env_file=None, newsproof_data_dir=data))  # type: ignore[call-arg]
        runner.run(running.__aenter__())
        yield directory
        runner.run(running.__aexit__(None, None, None))


def test_a_case_tells_its_story(reopened: Path) -> None:
    directory = reopened
    done = invoked("case", "h09", cwd=directory)
    assert done.returncode == exits.OK, done.stderr
    for part in ("Walmart", "First judgement", "Evidence:", "How the confidence came about", "preliminary", "calls,"):
        assert part in done.stdout
    told = json.loads(invoked("case", "h09", "--json", cwd=directory).stdout)
    rows = told["confidence"]
    assert rows[-1]["confidence"] == pytest.approx(
        rows[0]["confidence"] + sum(r["amount"] or 0 for r in rows), abs=1e-6
    )
    raw = [
        json.loads(line) for line in invoked("case", told["case_id"][:8], "--events", cwd=directory).stdout.splitlines()
    ]
    assert raw[0]["event"]["type"] == "newsproof.event_received"
    assert [r["accepted"] for r in raw] == [True] * len(raw)


def test_of_all_signals_exactly_the_two_that_a_later_case_denies_are_retracted(reopened: Path) -> None:
    signals = [json.loads(line) for line in invoked("signals", "--json", cwd=reopened).stdout.splitlines()]
    rows = [json.loads(line) for line in invoked("cases", "--json", cwd=reopened).stdout.splitlines()]
    names = {row["case_id"]: row["external_id"] for row in rows}
    assert {names[s["case_id"]]: s["revision"] for s in signals if s["revision"] > 1} == {"h09": 2, "h33": 2}
    assert {names[s["case_id"]] for s in signals if s["stage"] == "retracted"} == {"h09", "h33"}
    for denier, denied in (("h41", "h09"), ("h42", "h33")):
        told = json.loads(invoked("case", denied, "--json", cwd=reopened).stdout)
        assert [(r["stage"], r["action"]) for r in told["revisions"]][1:] == [("retracted", "observe")]
        assert next(r["end"] for r in rows if names[r["case_id"]] == denied).startswith("observe 0.00 (retracted")
        by = next(case for case, name in names.items() if name == denier)
        assert by in told["revisions"][-1]["notes"]
        assert f"The signal of case {told['case_id']} is retracted" in str(
            json.loads(invoked("case", denier, "--json", cwd=reopened).stdout)["timeline"]
        )


def test_sql_answers_in_every_format(reopened: Path) -> None:
    directory = reopened
    query = "SELECT count() AS n, 'x' AS text FROM v_signals"
    as_csv = invoked("sql", query, "--format", "csv", cwd=directory)
    ((n, text),) = list(csv.reader(io.StringIO(as_csv.stdout)))[1:]
    assert (int(n) > 0, text) == (True, "x")
    assert json.loads(invoked("sql", query, "--json", cwd=directory).stdout) == {"n": int(n), "text": "x"}
    refused = invoked("sql", "SELECT nonsense FROM v_signals", cwd=directory)
    assert refused.returncode == exits.USAGE and "SHOW TABLES" in refused.stderr


def test_an_example_bot_gets_typed_signals(reopened: Path) -> None:
    directory = reopened
    source = (CHECKOUT / "examples" / "bot.py").read_text("utf-8")
    # The log lies still, so the bot's group begins at its start, and its orders are of years ago; everything else is the
    # example as it stands.
    code = source.replace('group="example-bot"', 'group="example-bot", start="earliest"').replace(', "expired"}', "}")
    assert code.count("expired") == source.count("expired") - 1
    (directory / "bot.py").write_text(code)
    bot = subprocess.Popen(
        [sys.executable, "bot.py", "--include-offline", "--heartbeat", "0.2"],
        cwd=directory,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert bot.stdout is not None and bot.stderr is not None
    lines = [bot.stdout.readline() for _ in range(5)]
    assert bot.stderr.readline().endswith("waiting for signals\n")
    while "unconfirmed" not in (alive := bot.stderr.readline()):
        assert " UTC: acted on " in alive
    bot.send_signal(signal.SIGINT)
    _, err = bot.communicate(timeout=20)
    assert bot.returncode == exits.INTERRUPTED and "Traceback" not in err
    assert all(line.startswith("trying out, not trading: ") for line in lines)
    said = [line.split(": ")[1].split()[:3] for line in lines]
    for stage, verdict, action in said:
        assert stage in get_args(Stage) and verdict in get_args(Verdict) and action in get_args(Action)
        assert stage == "retracted" or (verdict in ACTED_ON and action != "observe")


@pytest.mark.parametrize(
    ("number", "after", "options"),
    [
        (signal.SIGINT, "All gated cases", []),
        (signal.SIGTERM, "All gated cases", []),
        pytest.param(signal.SIGINT, "Kafka and ClickHouse started", [], marks=pytest.mark.long),
        pytest.param(signal.SIGTERM, "cases opened", [], marks=pytest.mark.long),
        pytest.param(signal.SIGINT, "cases opened", ["--listen"], marks=pytest.mark.long),
    ],
)
def test_an_interrupted_demo_leaves_no_process(
    tmp_path: Path, number: signal.Signals, after: str, options: list[str]
) -> None:
    command = [*COMMAND, "demo", *options]
    running = subprocess.Popen(
        command, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert running.stderr is not None
    while after not in (line := running.stderr.readline()):
        assert line, "the demo ended before it could be interrupted"
    running.send_signal(number)
    _, err = running.communicate(timeout=60)
    assert running.returncode == exits.INTERRUPTED, err
    assert "Traceback" not in err
    assert processes_in(tmp_path) == []


def test_a_second_demo_beside_a_running_one_is_refused_and_a_killed_one_leaves_nothing(tmp_path: Path) -> None:
    running = subprocess.Popen(
        [*COMMAND, "demo"],
        cwd=tmp_path,
        env=environment(OFFLINE_LATENCY_SECONDS="5"),  # it goes on while the second one is refused
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stderr is not None
    while "Kafka and ClickHouse started" not in running.stderr.readline():
        assert running.poll() is None
    second = newsproof("demo", cwd=tmp_path)
    assert second.returncode == exits.USAGE and "already runs" in second.stderr
    children = psutil.Process(running.pid).children(recursive=True)
    assert len(children) >= 4  # Kafka, ClickHouse, worker, sink
    running.kill()
    running.communicate()
    _, alive = psutil.wait_procs(children, timeout=10)
    assert alive == []


@pytest.mark.long
def test_keep_leaves_it_up_for_other_commands_until_ctrl_c(tmp_path: Path) -> None:
    running = subprocess.Popen(
        [*COMMAND, "demo", "--keep", "--json"],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert running.stdout is not None
    assert json.loads(running.stdout.readline())["cases"] == 42
    sent = newsproof("publish", "-", cwd=tmp_path, stdin=b"Coinbase lists XYZ\n")
    assert "No Kafka was running" not in sent.stderr
    while len(newsproof("signals", "--json", cwd=tmp_path).stdout.splitlines()) < 43:
        assert running.poll() is None
    running.send_signal(signal.SIGINT)
    assert running.wait(timeout=60) == exits.INTERRUPTED
    assert processes_in(tmp_path) == []


@pytest.mark.long
def test_news_that_comes_in_by_itself_is_lost_nowhere_and_judged_once(tmp_path: Path) -> None:
    done = newsproof("demo", "--listen", "--json", cwd=tmp_path, timeout_s=200)
    assert done.returncode == exits.OK, done.stderr
    (line,) = done.stdout.splitlines()
    summary = json.loads(line)
    told = sum(line.change != "rendering" for line in script())
    expected = {"kinds": 7, "sources": 10, "items": told - 2, "cases": told, "edits": 2, "lost": 0, "second_cases": 0}
    assert summary == expected | {"stories": summary["stories"], "seconds": summary["seconds"]}
    assert 0 < summary["stories"] < told and summary["seconds"] < 150
    cases = [json.loads(line) for line in newsproof("cases", "--json", cwd=tmp_path).stdout.splitlines()]
    ends: dict[str, set[str]] = {}
    for case in cases:
        ends.setdefault(case["text"], set()).add(case["end"])
    confirmed = {one.text for one in sample_news() if any("(confirmed" in end for end in ends[one.text])}
    assert len(confirmed) >= 25, "the bundled pages have moved to today with the news"
    assert not (tmp_path / ".data" / "demo" / "sources.toml").exists()
    assert processes_in(tmp_path) == []


def test_bots_enter_once_and_never_hold_what_they_should_not(tmp_path: Path) -> None:
    done = newsproof("bots", "demo", "--json", cwd=tmp_path, timeout_s=200)
    assert done.returncode == exits.OK, done.stderr
    summary = json.loads(done.stdout.splitlines()[-1])
    # An entry for each order that a bot with the default limits accepts; a message for each judgement and retraction.
    counted = {"signals": 42, "entries": 26, "exits": 26, "retractions": 2, "notified": 42}
    assert summary == {**counted, "open_positions_wrong": 0, "duplicate_entries": 0, "seconds": summary["seconds"]}
    assert processes_in(tmp_path) == []
