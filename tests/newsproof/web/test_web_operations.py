"""Operations over the API: figures that the processes say, what is unknown, and dead letters that are sent again once."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiokafka import ConsumerRecord

from infra.settings import Settings
from newsproof.app.data_dir import LastAudit, keep_audit, last_audit
from newsproof.app.dead_letters import DeadLetter
from newsproof.app.processes.health import HealthServer, worker_unready
from newsproof.app.processes.metrics import WorkerMetrics
from newsproof.app.processes.targets import targets_in, write_target
from newsproof.web.operations import LIMITS, operations
from newsproof.web.processes import Figures, Process
from schemas.topics import Topics
from streams.feed.case_items import FeedCase
from streams.journal.appender import Appender
from streams.journal.clock import utc_now
from tests.newsproof.web.conftest import Serving
from tests.plain_graph import plain_registry
from tests.streams.world import World

RULES = Path(__file__).parents[3] / "infra" / "grafana" / "alerts.yml"
NOW = utc_now()


def poison(topic: str, value: bytes, offset: int) -> Any:
    return ConsumerRecord(
        topic=topic, partition=1, offset=offset, timestamp=0, timestamp_type=1, key=b"s:1", value=value, checksum=None,
        serialized_key_size=3, serialized_value_size=len(value), headers=[],
    )  # fmt: skip


async def letters(world: World, *values: bytes, topic: str = "") -> None:
    appender = Appender(world.address)
    await appender.start()
    for number, value in enumerate(values):
        await appender.dead_letter(
            world.topics.dead_letters, poison(topic or world.topics.news, value, number),
            reason="not_json" if value.startswith(b"{") else "not_utf8", why=f"why {number}", consumer="test",
        )  # fmt: skip
    await appender.stop()


@pytest.mark.security
async def test_dead_letters_are_listed_by_page_and_sent_again_once_whoever_asks_how_often(
    world: World, serving: Serving
) -> None:
    whole = b'{"text": "' + b"x" * 2_000
    await letters(world, b"{0", b"{1", whole, b"\xff")
    await letters(world, b"{never", topic=world.topics.cases)
    async with serving() as http:
        found = (await http.get("/api/v1/dead-letters?reason=not_json&limit=2")).json()
        assert found["count"] == 4 and len(found["items"]) == 2
        assert found["items"][0]["standing"] == "not_news" and len(found["items"][1]["preview"]) < 1_000
        counted = (await http.get("/api/v1/operations")).json()["dead_letters"]
        assert (counted["count"], counted["waiting"]) == (5, 4)
        assert [(one["reason"], one["waiting"], one["count"]) for one in counted["by_reason"]] == [
            ("not_json", 3, 4), ("not_utf8", 1, 1),
        ]  # fmt: skip
        one = found["items"][1]["id"]
        done = await http.post("/api/v1/dead-letters/requeue", json={"ids": [one, found["items"][0]["id"]]})
        assert done.json() == {"requeued": [one], "skipped": {found["items"][0]["id"]: "not_news"}, "left": 0}
        again = (await http.post("/api/v1/dead-letters/requeue", json={"ids": [one]})).json()
        assert again == {"requeued": [], "skipped": {one: "requeued"}, "left": 0}
        rest = (await http.post("/api/v1/dead-letters/requeue", json={"reason": "not_json"})).json()
        assert len(rest["requeued"]) == 2 and one not in rest["requeued"]
        assert (await http.post("/api/v1/dead-letters/requeue", json={"reason": "not_json"})).json()["requeued"] == []
        sent = {r.value: dict(r.headers) for r in await world.records(world.topics.news)}
        assert set(sent) == {b"{0", b"{1", whole}, "each once, whole, though less of it is shown"
        assert sent[whole] == {"dl_requeued_from": one.encode()}
        assert (await http.get("/api/v1/operations")).json()["dead_letters"]["waiting"] == 1
        for body, status in (({}, 400), ({"ids": ["0:99"]}, 404), ({"ids": [one], "reason": "not_json"}, 400)):
            assert (await http.post("/api/v1/dead-letters/requeue", json=body)).status_code == status
        elsewhere = {"origin": "http://evil.example"}
        refused = await http.post("/api/v1/dead-letters/requeue", json={"reason": "not_utf8"}, headers=elsewhere)
        assert refused.status_code == 403
        assert len(await world.records(world.topics.news)) == 3


@pytest.mark.security
async def test_a_process_says_its_figures_and_one_that_is_gone_is_away_and_what_it_said_unknown(
    world: World, serving: Serving, tmp_path: Path
) -> None:
    keep_audit(tmp_path, (await world.until_closed(0)).broken, NOW)
    kept = last_audit(tmp_path)
    assert kept == LastAudit(NOW, dict.fromkeys(kept.broken, 0)) if kept else False
    async with serving() as http, world.working(plain_registry(asks=True)) as worker, world.publishing() as publisher:
        before = (await http.get("/api/v1/operations")).json()
        assert before["processes"] == [] and before["log"]["behind"]["news"] is None and before["breakers"] is None
        metrics = WorkerMetrics(worker, publisher, audit=lambda: kept)
        health = HealthServer(
            Settings(metrics_port=0), metrics, lambda: worker_unready(worker, publisher), path="/hidden"
        )
        health.start()
        address = f"127.0.0.1:{health.port}"
        write_target(tmp_path, "worker-0", kind="worker", address=address, path="/hidden")
        assert (await http.get(f"http://{address}/metrics")).status_code == 404
        await world.publish(1)
        await world.until_closed(1)

        async def ready() -> bool:
            said = (await http.get("/api/v1/operations")).json()
            return bool(said["processes"][0]["state"] == "ready" and said["cases"]["newest_at"])

        await world.until(ready)
        said = (await http.get("/api/v1/operations")).json()
        assert said["log"]["behind"] == {"news": 0, "cases": 0, "research": None}
        assert said["audit"]["clean"] is True and said["cases"]["open"] == 0 and said["problems"] == []
        assert {one["state"] for one in said["breakers"]} == {"closed"}
        health.stop()
        gone = (await http.get("/api/v1/operations")).json()
        (process,) = gone["processes"]
        assert process["state"] == "away" and process["seen_at"] and gone["problems"] == ["process_down"]
        assert gone["log"]["behind"]["news"] is None and gone["breakers"] is None and gone["audit"] is None
    (tmp_path / "metrics" / "other.json").write_text("no list")
    assert [one.name for one in targets_in(tmp_path)] == ["worker-0"]


def test_each_problem_has_an_alert_of_its_name_with_the_same_limit() -> None:
    gone = Process(name="sink", kind="sink", state="away")
    samples: list[tuple[str, dict[str, str], float]] = [
        ("newsproof_consumer_lag", {"topic": Topics().news}, 1_001), ("newsproof_sink_waits", {}, 1),
        ("newsproof_publisher_active", {}, 0),
        ("newsproof_budget_limit_usd", {}, 30), ("newsproof_budget_left_usd", {}, 2.9),
        ("newsproof_budget_limit_units", {}, 50), ("newsproof_budget_left_units", {}, 4),
        ("newsproof_breaker_state", {"kind": "search", "provider": "p", "model": ""}, 1),
        ("newsproof_captchas_total", {"strategy": "main", "route": "direct"}, 6),
        ("newsproof_calls_total", {"kind": "scrape", "outcome": "ok"}, 29),
        ("newsproof_audit_timestamp_seconds", {}, NOW.timestamp()), ("newsproof_audit_broken", {"promise": "lost"}, 2),
        ("newsproof_listener_source_failures", {"source": "s", "reason": "not_found"}, 6),
        ("newsproof_listener_source_state", {"source": "t", "state": "stale"}, 1),
        ("newsproof_bot_oldest_pending_exit_seconds", {"bot": "b"}, 301),
    ]  # fmt: skip
    worker = Process(name="worker-0", kind="worker", state="ready", seen_at=NOW)
    letter = DeadLetter(
        id="0:1", reason="not_json", why="", consumer="", topic=Topics().news, partition=0, offset=1, at=utc_now(), key=None,
        value=b"", headers=(),
    )  # fmt: skip
    case = FeedCase(case_id="c", received_at=NOW - timedelta(hours=1))
    found = operations(
        [gone, worker], Figures(("worker-0", one) for one in samples),
        topics=Topics(), letters=[letter], cases=[case], now=NOW,
    )  # fmt: skip
    assert found["budget"][0] == {"kind": "month_usd", "limit": 30, "left": 2.9, "spent": 27.1}
    rules = [rule for group in yaml.safe_load(RULES.read_text("utf-8"))["groups"] for rule in group["rules"]]
    assert {rule["labels"]["problem"] for rule in rules} == set(found["problems"])
    numbers = {rule["labels"]["problem"]: rule["expr"] for rule in rules}
    for name, limit in (
        ("consumer_lag", "consumer_lag"), ("oldest_open_case", "oldest_open_case_s"), ("sink_behind", "sink_lag"),
        ("no_news", "no_news_s"), ("source_failing", "source_failures"), ("exit_pending", "exit_pending_s"), ("budget_low", "budget_left_share"), ("tool_calls_low", "budget_left_share"),
        ("captchas", "captchas_share"), ("captchas", "captchas"),
    ):  # fmt: skip
        assert f"{LIMITS[limit]:g}" in numbers[name].split(), name


def test_each_alert_says_what_to_do_and_links_to_a_chapter_that_is_there() -> None:
    chapters = re.findall(r"^### (\w+)$", (RULES.parents[2] / "docs" / "operations.md").read_text("utf-8"), re.M)
    rules = [rule for group in yaml.safe_load(RULES.read_text("utf-8"))["groups"] for rule in group["rules"]]
    assert [rule["alert"] for rule in rules] == chapters
    for rule in rules:
        said = rule["annotations"]
        assert said["summary"] and said["do"] and said["docs"] == f"docs/operations.md#{rule['alert'].lower()}"
