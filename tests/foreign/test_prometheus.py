"""Prometheus itself: its promtool on our alert rules, and its server on a run of ours, for every query that we ship.

Debian and Ubuntu have both in one package (`apt-get install prometheus`); where they are missing, the tests say so.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from infra.embedded.child import free_ports
from infra.kafka.topics import KafkaAddress
from infra.listeners.source import sources_of
from infra.settings import load_settings
from schemas.topics import Topics
from tests.infra.fakes.sources import recent, rss
from tests.newsproof.command import CHECKOUT, COMMAND, environment, newsproof

GRAFANA = CHECKOUT / "infra" / "grafana"
RULES = [
    rule for group in yaml.safe_load((GRAFANA / "alerts.yml").read_text("utf-8"))["groups"] for rule in group["rules"]
]
WITHIN_S = 120


def program(name: str) -> str:
    """Return where the program is; skip the test where it is not installed."""
    if (found := shutil.which(name)) is None:
        pytest.skip(f"no {name} here: apt-get install prometheus (Debian, Ubuntu)")
    return found


def told_by(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_promtool_takes_the_rules_and_each_alert_is_raised_by_what_it_is_for(tmp_path: Path) -> None:
    promtool = program("promtool")
    assert f"{len(RULES)} rules found" in told_by(
        promtool, "check", "rules", "--lint-fatal", str(GRAFANA / "alerts.yml")
    )
    tests = CHECKOUT / "tests" / "data" / "alerts_test.yml"
    told_by(promtool, "test", "rules", str(tests))
    tried = [one for test in yaml.safe_load(tests.read_text("utf-8"))["tests"] for one in test["alert_rule_test"]]
    raised = {one["alertname"] for one in tried if one.get("exp_alerts")}
    assert raised == {one["alertname"] for one in tried if not one.get("exp_alerts")} == {r["alert"] for r in RULES}
    # As in the container, but for where the files are.
    config = (GRAFANA / "prometheus.yml").read_text("utf-8").replace("/etc/prometheus", str(GRAFANA))
    (tmp_path / "prometheus.yml").write_text(config)
    told_by(promtool, "check", "config", str(tmp_path / "prometheus.yml"))


class Prometheus:
    """A server that reads the metrics of `up` in this directory, with our rules."""

    def __init__(self, directory: Path) -> None:
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(GRAFANA / "alerts.yml")],
            "scrape_configs": [
                {
                    "job_name": "n",
                    "file_sd_configs": [{"files": [f"{directory}/.data/metrics/*.json"], "refresh_interval": "1s"}],
                }
            ],
        }
        (directory / "prometheus.yml").write_text(yaml.safe_dump(config))
        (port,) = free_ports(1)
        told = [f"--config.file={directory}/prometheus.yml", f"--storage.tsdb.path={directory}/tsdb"]
        told += [f"--web.listen-address=127.0.0.1:{port}"]
        self._log = (directory / "prometheus.log").open("wb")
        self.process = subprocess.Popen([program("prometheus"), *told], stderr=self._log, stdout=self._log)
        self._http = httpx.Client(base_url=f"http://127.0.0.1:{port}/api/v1/", trust_env=False, timeout=30)

    def asked(self, path: str, **query: str) -> Any:
        """Return the data of an answer; None while the server does not respond."""
        try:
            said = self._http.get(path, params=query).json()
        except httpx.TransportError:
            return None
        assert said["status"] == "success", said
        return said["data"]

    def rows(self, expression: str) -> list[Any]:
        """Return what an instant query returns now."""
        data = self.asked("query", query=expression)
        return [] if data is None else list(data["result"])

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)
        self._http.close()
        self._log.close()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Prometheus]:
    """`up` with a listener, a signal, a dead letter and an audit, and a Prometheus that was there from the start."""
    program("prometheus")
    site = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(tmp_path)))
    threading.Thread(target=site.serve_forever, daemon=True).start()
    env = environment(WEB_PORT="0", LISTEN="true", LISTENER_SOURCES=str(sources_here(tmp_path, site.server_port)))
    up = subprocess.Popen([*COMMAND, "up"], cwd=tmp_path, env=env, stderr=subprocess.PIPE, text=True)
    assert up.stderr is not None
    prometheus = Prometheus(tmp_path)
    try:
        while "Newsproof runs" not in (line := up.stderr.readline()):
            assert line, "it ended instead of running"
        yield prometheus
    finally:
        prometheus.stop()
        up.send_signal(signal.SIGINT)
        up.communicate(timeout=60)
        site.shutdown()


def sources_here(directory: Path, port: int) -> Path:
    """Write a list on which no source but one with an item and one without a page is on; return its file."""
    (directory / "feed.xml").write_bytes(rss(recent(1)))
    rows = "".join(f'[[source]]\nid = "{name}"\nmuted = true\n' for name in sources_of(None))
    for name in ("feed", "gone"):
        url = f"http://127.0.0.1:{port}/{name}.xml"
        rows += f'[[source]]\nid = "{name}"\nkind = "feed"\nurl = "{url}"\nprivate = true\nevery_s = 1\n'
    (directory / "own.toml").write_text(rows)
    return directory / "own.toml"


@pytest.mark.foreign
@pytest.mark.timeout(400)
def test_every_query_of_the_dashboard_returns_rows_and_every_rule_is_evaluated_on_a_run(
    running: Prometheus, tmp_path: Path
) -> None:
    news = (
        b'{"source":"me","text":"Bybit cold wallet hacked, 400,000 ETH drained","published_at":"2025-02-21T16:00:00Z"}'
    )
    assert newsproof("publish", "-", cwd=tmp_path, stdin=news).returncode == 0
    asyncio.run(a_record_that_is_no_news(tmp_path))
    until(lambda: running.rows("sum(newsproof_cases_ended_total) > 0"))
    assert newsproof("audit", cwd=tmp_path).returncode == 0
    until(lambda: running.rows("newsproof_audit_timestamp_seconds"))
    dashboard = json.loads((GRAFANA / "dashboards" / "newsproof.json").read_text("utf-8"))
    every = (t["expr"] for panel in dashboard["panels"] for t in panel.get("targets", ()))
    queries = [expr for expr in every if "newsproof_bot_" not in expr]  # no bot is defined here
    assert len(queries) > 50
    empty = set(queries)

    def all_have_rows() -> bool:
        empty.difference_update([query for query in empty if running.rows(query)])
        return not empty

    until(all_have_rows, lambda: f"no rows: {sorted(empty)}")
    state = {rule["name"]: rule for group in running.asked("rules")["groups"] for rule in group["rules"]}
    assert {name: rule["health"] for name, rule in state.items()} == {rule["alert"]: "ok" for rule in RULES}
    names = {name for name in running.asked("label/__name__/values") if name.startswith(("newsproof_", "up"))}
    for rule in RULES:
        metrics = set(re.findall(r"\bnewsproof_\w+", rule["expr"])) or {"up"}
        assert metrics <= names or "newsproof_bot_" in rule["expr"], rule["alert"]
    assert {name for name, rule in state.items() if rule["state"] == "firing"} == {"NewsproofDeadLetters"}


async def a_record_that_is_no_news(directory: Path) -> None:
    """Write it to the topic of the news, past every check of `publish`."""
    told = json.loads(newsproof("kafka", "--json", cwd=directory).stdout)
    settings = load_settings(kafka_embedded_password_file=directory / ".data" / "kafka" / "password")
    producer = KafkaAddress.of(settings, told["bootstrap"]).producer()
    await producer.start()
    await producer.send_and_wait(Topics(settings.topic_prefix).news, b"{broken")
    await producer.stop()


def until(holds: Any, why: Any = lambda: "") -> None:
    """Ask again until it holds: Prometheus looks once a second, and needs two looks for a rate."""
    end = time.monotonic() + WITHIN_S
    while not holds():
        assert time.monotonic() < end, why() or "it did not come about in time"
        time.sleep(0.2)
