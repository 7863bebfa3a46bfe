"""`newsproof up` and the commands around it, as a first user would try them."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import httpx
import psutil
import pytest
from prometheus_client import CollectorRegistry

from infra.settings import Settings
from newsproof.app import exits
from newsproof.app.processes.health import HealthServer
from schemas.errors import ConfigError
from tests.newsproof.command import COMMAND, environment, health_of, invoked, newsproof, processes_in
from tests.newsproof.web.reading import asked_with

pytestmark = pytest.mark.slow

LOGS = {"worker": "worker-0.log", "sink": "sink.log", "web": "web.log"}


@contextmanager
def started(directory: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run `up` in a directory; yield it, and what it has said, as soon as it says how to go on in another terminal."""
    env = environment(METRICS_PORT="0", WEB_PORT="0")
    up = subprocess.Popen([*COMMAND, "up"], cwd=directory, env=env, stderr=subprocess.PIPE, text=True)
    assert up.stderr is not None
    said = ""
    try:
        while "In another terminal" not in (line := up.stderr.readline()):
            assert line, f"it ended instead of running: {said}"
            said += line
        yield up, said
    finally:
        up.kill()
        up.communicate()


class Running(NamedTuple):
    """`up` that runs for all tests but those of its start. The last one ends it."""

    process: subprocess.Popen[str]
    said: str
    directory: Path

    @property
    def page(self) -> str:
        """What it says of the page's address."""
        return re.findall(r"  Page +(.*)", self.said)[0]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    directory = tmp_path_factory.mktemp("up")
    with started(directory) as (up, said):
        yield Running(up, said, directory)


@pytest.mark.security
def test_a_question_is_answered_at_the_address_that_up_prints_and_no_log_holds_its_token(
    running: Running,
) -> None:
    phases = re.findall(r"^ +[0-9.]+ s (.*)$", running.said, re.M)
    assert sorted(phases[:2]) == ["ClickHouse is ready", "Kafka is ready"]
    assert phases[2:] == [
        "topics and tables are ready",
        "starting worker-0, research, web, sink",
        "the page is ready",
    ]
    data = running.directory / ".data"
    token = (data / "web-token").read_text().strip()
    assert token not in running.said, "a pipe may lead to a log"
    assert running.page.endswith("  (log in with the token in .data/web-token)")
    with httpx.Client(**asked_with(running.page, data), timeout=60, trust_env=False) as client:
        assert client.get("/").headers["content-type"].startswith("text/html")
        question = {"message": "Where does BTC stand? Please analyse.", "chat_history": []}
        with client.stream("POST", "/api/v1/research/chat", json=question) as answer:
            events = [line.removeprefix("event: ") for line in answer.iter_lines() if line.startswith("event: ")]
    assert events[0] == "status" and events.count("agent_result") == 3 and events[-2:] == ["final_answer", "done"]
    assert all(token not in log.read_text("utf-8") for log in (data / "logs").iterdir())


def test_what_the_chat_cannot_use_is_refused_before_anything_starts(tmp_path: Path) -> None:
    env = {"NEWSPROOF_MODE": "live", "GEMINI_API_KEY": "k" * 20, "TAVILY_API_KEY": "k", "COINGECKO_BASE_URL": "nowhere"}
    done = invoked("up", cwd=tmp_path, env=env)
    assert done.returncode == exits.USAGE and "COINGECKO_BASE_URL" in done.stderr
    assert processes_in(tmp_path) == []


@pytest.mark.security
def test_a_certificate_that_cannot_be_used_is_refused_before_anything_starts(tmp_path: Path) -> None:
    done = invoked("up", cwd=tmp_path, env={"WEB_TLS_CERT_FILE": "nothing.pem", "WEB_PORT": "0"})
    assert (done.returncode, processes_in(tmp_path)) == (exits.USAGE, [])
    assert "WEB_TLS_CERT_FILE=nothing.pem cannot be used" in done.stderr and "Starting" not in done.stderr


@pytest.mark.security
def test_only_the_page_has_its_token_in_its_environment(running: Running) -> None:
    token = (running.directory / ".data" / "web-token").read_text().strip()
    children = psutil.Process(running.process.pid).children(recursive=True)
    while not all((commands := {child.pid: child.cmdline() for child in children}).values()):
        assert running.process.poll() is None  # the last of them has not begun yet: until then it has neither
    assert all(any(name in words for words in commands.values()) for name in ("worker", "research-worker", "sink"))
    knowing = [commands[one.pid] for one in children if token in one.environ().values()]
    assert len(knowing) == 1 and "web" in knowing[0]


@pytest.mark.security
def test_the_port_whose_address_is_told_is_nobody_elses_even_while_the_page_is_dead(
    running: Running,
) -> None:
    at = urlsplit(running.page.split()[0])
    web = next(one for one in psutil.Process(running.process.pid).children(recursive=True) if "web" in one.cmdline())
    web.kill()
    web.wait(10)
    with socket.socket() as stranger:
        stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with pytest.raises(OSError, match="in use"):
            stranger.bind(("127.0.0.1", at.port))
    # Who asks meanwhile waits for the page that is started again.
    asked = asked_with(running.page.split()[0], running.directory / ".data")
    assert httpx.get(f"{asked['base_url']}healthz", timeout=60, trust_env=False).status_code == 200


def test_a_port_that_was_chosen_and_is_taken_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = invoked("up", cwd=tmp_path, env={"WEB_PORT": str(taken.getsockname()[1])})
    assert (done.returncode, processes_in(tmp_path)) == (exits.USAGE, [])
    assert f"of 127.0.0.1 is in use by PID {os.getpid()} (" in done.stderr
    assert "Starting" not in done.stderr


def test_news_from_standard_input_becomes_a_signal_once_and_bad_input_a_letter(running: Running) -> None:
    cwd = running.directory
    text = b"Bybit cold wallet hacked, 400,000 ETH drained, the exchange says"
    follow, pipe = [*COMMAND, "signals", "--follow", "--json"], subprocess.PIPE
    follower = subprocess.Popen(follow, cwd=cwd, env=environment(), stdout=pipe, stderr=pipe, text=True)
    item = json.dumps(
        {"source": "s", "external_id": "mine", "text": text.decode(), "published_at": "2025-02-21T16:00:00Z"}
    )
    published = newsproof("publish", "-", cwd=cwd, stdin=f"{item}\n{item}\n".encode())
    assert published.stdout == "published 2, refused 0\n", published.stderr
    assert newsproof("publish", "-", "--raw", cwd=cwd, stdin=b"{broken").returncode == exits.OK
    assert follower.stdout is not None
    signal_seen = json.loads(follower.stdout.readline())
    assert "offline" in signal_seen["risk_flags"] and signal_seen["asset"] == "ETH"
    follower.send_signal(signal.SIGINT)
    _, err = follower.communicate(timeout=20)
    assert (follower.returncode, err) == (exits.INTERRUPTED, "")

    letters: list[str] = []
    while not letters:
        letters = invoked("dlq", "list", "--json", cwd=cwd).stdout.splitlines()
    assert json.loads(letters[0])["reason"] == "not_json"
    report = json.loads(invoked("audit", "--json", cwd=cwd).stdout)
    counted = [report[name] for name in ("news", "cases", "signals", "dead_letters", "lost")]
    assert counted == [3, 1, 1, 1, 0]
    (case,) = map(json.loads, invoked("cases", "--json", cwd=cwd).stdout.splitlines())
    assert (case["external_id"], case["case_id"]) == ("mine", signal_seen["case_id"])
    scraped = httpx.get(f"{health_of(cwd / '.data' / 'metrics' / 'worker-0.json')}/metrics", trust_env=False).text
    for line in ("news_repeated_total 1.0", "news_refused_total 1.0", "signals_published_total 1.0", "open_cases 0.0"):
        assert f"newsproof_{line}" in scraped


def test_ctrl_c_ends_the_whole_tree_in_order(running: Running) -> None:
    up, cwd = running.process, running.directory
    assert len(psutil.Process(up.pid).children(recursive=True)) >= 4
    second = newsproof("up", cwd=cwd)
    assert second.returncode == exits.USAGE
    assert f"already runs on .data: PID {up.pid}, since " in second.stderr
    logs = cwd / ".data" / "logs"
    while not all(f"{name} starts" in (logs / file).read_text() for name, file in LOGS.items()):
        assert up.poll() is None
    up.send_signal(signal.SIGINT)
    _, err = up.communicate(timeout=60)
    assert up.returncode == exits.INTERRUPTED
    ending = err[err.index("Stopping in order. Press Ctrl-C again to stop at once.") :].splitlines()[1:]
    assert [line.strip() for line in ending] == [
        *("stopping worker-0, research, web", "stopping sink", "stopping ClickHouse", "stopping Kafka"),
        "Stopped. The data stays in .data.",
    ]
    assert "Traceback" not in err and processes_in(cwd) == []
    for name, file in LOGS.items():
        assert f"{name} ended in order" in (logs / file).read_text("utf-8")


def test_ctrl_c_while_it_starts_ends_what_began_and_a_second_one_all_at_once(tmp_path: Path) -> None:
    for after, presses, last in (
        ("Starting in", 1, "Stopped. The data stays in .data.\n"),
        ("Kafka is ready", 2, "Stopped at once.\n"),
    ):
        up = subprocess.Popen(
            [*COMMAND, "up", "--port", "0"], cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, text=True
        )
        assert up.stderr is not None
        while after not in (line := up.stderr.readline()):
            assert line, "it ended"
        up.send_signal(signal.SIGINT)
        while "Stopping in order" not in (line := up.stderr.readline()):
            assert line, "it ended without a word"
        if presses == 2:
            up.send_signal(signal.SIGINT)
        _, err = up.communicate(timeout=60)
        assert (up.returncode, err.splitlines(keepends=True)[-1]) == (exits.INTERRUPTED, last)
        while processes_in(tmp_path):
            pass  # they end with it, within milliseconds; the test's own time limit is the bound


def test_a_killed_up_leaves_no_process(tmp_path: Path) -> None:
    with started(tmp_path) as (up, _):
        children = psutil.Process(up.pid).children(recursive=True)
        assert len(children) >= 4
    _, alive = psutil.wait_procs(children, timeout=10)
    assert alive == []


async def test_a_taken_metrics_port_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        settings = Settings(metrics_port=taken.getsockname()[1])
        with pytest.raises(ConfigError, match="METRICS_PORT"):
            HealthServer(settings, CollectorRegistry(), dict).start()
