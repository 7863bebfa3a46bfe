"""A run on a real broker and a real engine: its topic, its rows, and several runs at once."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from agents.core.case import Case, open_case
from evaluation.compare.run_records import read_runs
from evaluation.replay.log_file import read_log_file
from evaluation.runs import backtest
from evaluation.runs.performer import AsOfMemory
from evaluation.runs.plan import RunPlan
from evaluation.runs.topic import RunLease, RunTopic
from infra.clickhouse.client import ClickHouse
from infra.clickhouse.columns import MEMORY, SIGNALS
from infra.kafka.topics import KafkaAddress
from infra.models.embeddings.hashing import EMBEDDING_MODEL, embed
from infra.settings import Settings, load_settings
from newsproof.app.data_access import LogAccess
from schemas.effects import Recall, RecallReply
from schemas.errors import ConfigError, TransientError
from schemas.events import EventReceived
from schemas.topics import Topics
from tests.evaluation.runs.run_samples import COST, CountingModel, ports_of, prompt

STRICT = {"synthesize": prompt("synthesize")}


@pytest.fixture
def tables(clickhouse: ClickHouse) -> ClickHouse:
    return clickhouse


@pytest.fixture
def log(address: KafkaAddress, topics: Topics, tmp_path: Any) -> LogAccess:
    settings: Settings = load_settings(newsproof_data_dir=tmp_path, newsproof_mode="simulated")
    return LogAccess(settings, address, topics, False)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> CountingModel:
    found = CountingModel()
    monkeypatch.setattr(backtest, "model_ports", lambda _settings, _tables: ports_of(found))
    return found


async def rows(tables: ClickHouse, sql: str) -> list[Any]:
    return list((await tables.query(sql)).rows)


@pytest.mark.slow
async def test_a_stopped_run_goes_on_from_its_topic_and_its_rows_are_whole(
    log: LogAccess, tables: ClickHouse, model: CountingModel
) -> None:
    plan, file = RunPlan(run_id="strict", prompts=STRICT), read_log_file()
    first = await backtest.run_plan(log, tables, plan, max_cost=COST * 5, file=file)
    assert (first.status, model.asked.total()) == ("stopped", 5)
    assert (await read_runs(tables, "strict"))[0]["status"] == "stopped"
    ran = await backtest.run_plan(log, tables, plan, max_cost=Decimal(10), file=file)
    assert ran.status == "finished"
    assert model.asked.total() == ran.totals.executed
    once_more = await backtest.run_plan(log, tables, plan, max_cost=Decimal(10), file=file)
    assert (once_more.held, model.asked.total()) == (42, ran.totals.executed)

    (run,) = await read_runs(tables, "strict")
    assert (run["status"], run["cases"], run["executed"]) == ("finished", 42, ran.totals.executed)
    assert run["cost_usd"] == COST * ran.totals.executed
    counted = "SELECT status, count(), sum(executed), sum(reused), sum(cost_usd) FROM v_run_cases WHERE run_id = 'strict' GROUP BY status"
    assert await rows(tables, counted) == [
        ("replayed", 42, ran.totals.executed, ran.totals.reused, COST * ran.totals.executed)
    ]
    calls = dict(
        await rows(tables, "SELECT execution, count() FROM v_calls WHERE run_id = 'strict' GROUP BY execution")
    )
    assert calls == {"executed": ran.totals.executed, "reused": ran.totals.reused}
    reused = await rows(
        tables,
        "SELECT countIf(latency_ms IS NOT NULL), sum(cost_usd), sum(avoided_cost_usd) FROM v_calls "
        "WHERE run_id = 'strict' AND execution = 'reused'",
    )
    assert reused == [(0, Decimal(0), ran.totals.avoided)]


async def test_a_run_is_not_gone_on_with_under_another_plan(
    log: LogAccess, tables: ClickHouse, model: CountingModel
) -> None:
    file = read_log_file()
    await backtest.run_plan(log, tables, RunPlan(run_id="one", sample=2), max_cost=None, file=file)
    with pytest.raises(ConfigError, match=r"started with other options \(--prompt or MODEL_OPTIONS, --sample\)"):
        await backtest.run_plan(log, tables, RunPlan(run_id="one", prompts=STRICT), max_cost=None, file=file)


async def test_several_runs_go_on_at_once_but_not_twice_the_same(
    log: LogAccess, tables: ClickHouse, model: CountingModel
) -> None:
    file = read_log_file()
    plans = [RunPlan(run_id=f"run-{n}", prompts=STRICT, sample=6) for n in range(3)]
    ran = await asyncio.gather(*(backtest.run_plan(log, tables, p, max_cost=None, file=file) for p in plans))
    assert {r.status for r in ran} == {"finished"}
    assert model.asked.total() == sum(r.totals.executed for r in ran)
    found = await rows(tables, "SELECT run_id, count() FROM v_run_cases GROUP BY run_id ORDER BY run_id")
    assert found == [("run-0", 6), ("run-1", 6), ("run-2", 6)]
    topic = RunTopic(log.address, log.topics, "run-0")
    async with backtest._holding_lease(log, topic, "run-0"):
        with pytest.raises(ConfigError, match="already runs on"):
            await backtest.run_plan(log, tables, plans[0], max_cost=None, file=file)


async def test_one_run_is_worked_on_by_one_process_also_from_another_data_directory(
    log: LogAccess, tables: ClickHouse, model: CountingModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, file = RunPlan(run_id="twice", prompts=STRICT, sample=6), read_log_file()
    settings = log.settings.model_copy(update={"newsproof_data_dir": tmp_path / "other"})
    elsewhere = LogAccess(settings, log.address, log.topics, False)
    async with backtest._holding_lease(log, RunTopic(log.address, log.topics, "twice"), "twice"):
        with monkeypatch.context() as hasty:
            hasty.setattr("evaluation.runs.topic.PATIENCE_S", 2.0 - backtest.SESSION_S)
            with pytest.raises(ConfigError, match="another process works on the run twice"):
                await backtest.run_plan(elsewhere, tables, plan, max_cost=None, file=file)
        assert model.asked.total() == 0
    ran = await backtest.run_plan(elsewhere, tables, plan, max_cost=None, file=file)
    assert (ran.status, ran.held) == ("finished", 0)


async def test_a_run_that_kafka_assigns_to_nobody_is_not_said_to_be_anothers(
    log: LogAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evaluation.runs.topic.PATIENCE_S", 0.0)
    lease = RunLease(log.address, f"{log.topics.prefix}runs.unknown", "unknown", group="unknown", session_s=1.0)
    with pytest.raises(TransientError, match=r"did not assign the run unknown .* no other has it: check the broker"):
        await lease.take_in_time()


async def test_a_process_that_lost_its_run_to_another_pays_for_nothing_more(log: LogAccess) -> None:
    lease = RunLease(log.address, "runs.lost", "lost", group="lost")
    cut_off = asyncio.Event()

    async def paying() -> None:
        lease.lost.set()
        try:
            await asyncio.Event().wait()
        finally:
            cut_off.set()

    with pytest.raises(ConfigError, match="another process took over the run lost"):
        await backtest._while_lease_held(lease, paying(), "lost")
    assert cut_off.is_set()


async def test_what_anybody_else_writes_to_a_runs_topic_is_passed_by(
    log: LogAccess, tables: ClickHouse, model: CountingModel
) -> None:
    plan, file = RunPlan(run_id="foreign", sample=3), read_log_file()
    await backtest.run_plan(log, tables, plan, max_cost=None, file=file)
    topic = RunTopic(log.address, log.topics, plan.run_id)
    async with log.address.producer(linger_ms=0) as producer:
        for value in (b"", b"{}", b'{"type": "newsproof.call_made"}', b"\xff"):
            await producer.send_and_wait(topic.name, value)
    ran = await backtest.run_plan(log, tables, plan, max_cost=None, file=file)
    assert (ran.status, ran.held) == ("finished", 3)


async def test_a_log_without_ended_cases_is_refused_in_words(
    log: LogAccess, made_topics: Topics, tables: ClickHouse, model: CountingModel
) -> None:
    with pytest.raises(ConfigError, match="no case whose news was published in this range has ended"):
        await backtest.run_plan(log, tables, RunPlan(run_id="empty"), max_cost=None)


async def test_a_memory_and_an_outcome_from_the_future_are_refused_and_counted(tables: ClickHouse) -> None:
    case = a_case()
    past, future = case.as_of - timedelta(days=3), case.as_of + timedelta(days=3)
    text = case.news.text
    # Decided and emitted before; decided before and emitted after; decided after.
    for name, decided, emitted in (("a", past, past), ("b", past, future), ("c", future, future)):
        await remember(tables, name, text, decided, emitted)
    for name, exit_at in (("a", future), ("c", future)):
        columns = ("case_id", "horizon_s", "entry_at", "exit_at", "return", "version")
        await tables.insert("outcomes", columns, [(id_of(name), 3600, ms(past), ms(exit_at), 0.5, 1)])
    wanted = Recall(text=text, asset="BTC", as_of=case.as_of, limit=5, exclude_case=case.case_id)
    (call,), refused = await AsOfMemory(tables, mode="simulated").recall(wanted, case)
    assert isinstance(call.reply, RecallReply)
    assert [(e.case_id, e.outcome) for e in call.reply.entries] == [(id_of("a"), None)]
    assert refused == 3  # two memories, and the outcome of the one that counts


def a_case() -> Case:
    log = read_log_file()
    record = next(r for r in log.cases if dict(r.headers)["ce_type"] == b"newsproof.event_received")
    import msgspec

    event = msgspec.json.decode(record.value or b"", type=EventReceived)
    at = event.news.as_of
    return open_case(event, case_id=event.news.case_id, event_id="e", run_id="live", at=at, config=None)


def id_of(name: str) -> str:
    return f"{name * 8}-{name * 4}-5{name * 3}-8{name * 3}-{name * 12}"


def ms(at: Any) -> int:
    return round(at.timestamp() * 1000)


async def remember(tables: ClickHouse, name: str, text: str, decided: Any, emitted: Any) -> None:
    memory = dict.fromkeys(MEMORY, "") | {
        "run_id": "live", "case_id": id_of(name), "event_id": name, "signal_id": name, "verdict": "likely", "asset": "BTC",
        "summary": text, "confidence": 0.5, "decided_at": ms(decided), "embedding_model": EMBEDDING_MODEL,
        "embedding": embed(text), "keywords": [], "journal_partition": 0, "journal_offset": 0, "first_wins": 1,
    }  # fmt: skip
    await tables.insert("memories", MEMORY, [tuple(memory.values())])
    names = ("run_id", "signal_id", "revision", "stage", "verdict", "case_id", "confidence", "decided_at", "emitted_at")
    assert set(names) <= set(SIGNALS)
    values = ("live", name, 1, "final", "likely", id_of(name), 0.5, ms(decided), ms(emitted))
    await tables.insert("signals", names, [values])
