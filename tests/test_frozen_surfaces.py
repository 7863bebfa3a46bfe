"""Outside surfaces, compared with the literals of tests/data/frozen_surfaces.json. A deliberate change edits the literal.

Not repeated here: docs/cli.md and docs/asyncapi.json, which tests compare with what the code generates.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import msgspec
import pytest
from fastapi.dependencies.utils import get_flat_params
from fastapi.params import Query
from fastapi.routing import APIRoute
from typer.testing import CliRunner

import newsproof
from agents.core.answers import checked
from agents.core.step import StepFailure, needed
from agents.core.step_turn import declared, failure_of
from agents.graphs import research, verification
from evaluation.compare.comparison import Comparison
from evaluation.compare.run_records import read_run
from evaluation.compare.watch import WatchResult
from evaluation.labels.label_report import LabelReport, LabelSource
from evaluation.looks import Look
from evaluation.prices.profit_report import ProfitReport
from evaluation.prices.study_report import StudyReport
from evaluation.replay.log_file import read_log_file
from evaluation.runs.backtest import RunSummary
from evaluation.runs.estimate import Estimate
from infra.bots.definition import BotDefinition
from infra.clickhouse.migrate import load_migrations
from infra.kafka.topics import KafkaAddress, topic_specs
from infra.ports import Ports
from infra.settings import Settings, load_settings
from newsproof import notebook
from newsproof.app.composition import worker_options
from newsproof.app.dead_letters import DeadLetter
from newsproof.app.processes.bots import BotMetrics, bot_unready
from newsproof.app.processes.health import HealthServer, listener_unready, sink_unready, worker_unready
from newsproof.app.processes.metrics import ListenerMetrics, SinkMetrics, WorkerMetrics
from newsproof.app.source_list import ListedSource
from newsproof.app.watches import WatchView
from newsproof.cli.main import app
from newsproof.cli.measure.labels import LabelImport
from newsproof.cli.measure.price_imports import Changes, ImportReport, RemovedImports, StandingImport
from newsproof.cli.operate.describe import SettingView, _ways, kafka_login, views
from newsproof.cli.operate.live_calls import CallCheck, Check
from newsproof.cli.operate.log import SHOWN, budget_document, describe_topics, letter_document
from newsproof.cli.operate.record import Rebuilt
from newsproof.cli.read.case import replay_document
from newsproof.cli.read.export import Export, SignalExport
from newsproof.cli.run.bots_demo import BotsSummary
from newsproof.cli.run.investigate import _change, _last_line
from newsproof.cli.run.listen import PolledSource
from newsproof.report.case_document import document_of
from newsproof.report.data import ANSWERS, Report
from newsproof.report.demo import ListenSummary
from newsproof.web.api import live as live_api
from newsproof.web.api import news as news_api
from newsproof.web.api import prices as prices_api
from newsproof.web.api.prices import PriceSince
from newsproof.web.backend import Backend, Status
from schemas import envelope as wire
from schemas.budget import LimitsSet, Reserved
from schemas.config import Prompt, Snapshot
from schemas.effects import Failure, Recall, RecallReply
from schemas.errors import BudgetExceeded, ConfigError, FailureKind, PermanentError, TransientError
from schemas.events import CaseDropped, EventReceived, SignalSynthesized, StepStarted
from schemas.signals import ACTED_ON
from schemas.topics import Topics
from streams.audit.audit import AuditReport
from streams.bots.runner import BotRunner
from streams.budget.budget import BudgetLedger
from streams.budget.rule import BudgetState
from streams.composition import worker_of
from streams.effects.breakers import Breakers, Permit
from streams.effects.host import EffectsHost
from streams.effects.meter import Latencies
from streams.effects.spending import UnlimitedBudget
from streams.ending import Ending
from streams.journal.case_reading import CountedCase, JournalRecord, readable_record
from streams.listening.listener import Listener, Options
from streams.publish.publisher import Publisher
from streams.reputation.fold import Reputation
from streams.runtime.options import WorkerOptions
from streams.runtime.partition import Partitions
from streams.runtime.worker_slot import WorkerSlot
from streams.sink.batches import why_not
from streams.sink.sink import Sink
from streams.wake import Wake
from streams.worker import Worker
from tests.plain_graph import simulated_ports

PROJECT = Path(__file__).parents[1]
FROZEN: dict[str, Any] = json.loads((PROJECT / "tests" / "data" / "frozen_surfaces.json").read_text("utf-8"))
PACKAGES = ("schemas", "agents", "infra", "streams", "evaluation", "newsproof")
NOWHERE = KafkaAddress(bootstrap="127.0.0.1:1")
LIMITS = LimitsSet(monthly_usd=Decimal(1), triage_reserve_usd=Decimal(0), daily_units=1, allow_unpriced=False, by="0")
NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)


# The sample log, whatever code recorded it


def sample_records() -> list[JournalRecord]:
    read = (readable_record(wire.read_envelope(one.headers), one, accepted=True) for one in read_log_file().cases)
    return [one for one in read if one is not None]


def test_the_sample_news_come_to_these_signals() -> None:
    # Replay holds the code to the log; this holds a log that is recorded anew to the one before it.
    news: dict[str, str] = {}
    found: dict[str, str] = {}
    for record in sample_records():
        match record.event:
            case EventReceived(news=item):
                news[record.envelope.case_id] = str(item.external_id)
            case SignalSynthesized(signal=s, path=path):
                sure = f"{s.preliminary_confidence:.4f} → {s.confidence:.4f}"
                found[news[s.case_id]] = f"{s.asset} {s.action} {sure} {s.verdict} {path}: {' '.join(s.risk_flags)}"
            case CaseDropped(reason=reason):
                found[news[record.envelope.case_id]] = f"dropped: {reason}"
    assert found == FROZEN["sample"]


# Settings


@pytest.fixture
def empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Away from anybody's .env file."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("empty_directory")
def test_settings_have_their_names_and_defaults() -> None:
    assert {one.name: one.value for one in views(load_settings())} == FROZEN["settings"]


@pytest.mark.usefixtures("empty_directory")
def test_every_setting_is_read_from_the_environment_variable_of_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    particular = {
        "WEB_TOKEN": "t" * 16,
        "LISTENER_KEY": "k" * 20,
        "WEB_TRUSTED_PROXY": "10.0.0.1",
        "KAFKA_SASL_MECHANISM": "PLAIN",
        "CLICKHOUSE_CLUSTER": "news",
    }
    particular["OPENAI_GATEWAYS"] = "tuzi=https://host/v1"
    for name, default in FROZEN["settings"].items():
        of_each = {"OPENAI_KEY": "OPENAI_KEY_TUZI", "BOT_SECRET": "BOT_SECRET_MY_BOT"}  # one for each gateway, and bot
        variable = of_each.get(name, name)
        monkeypatch.setenv(variable, default or particular.get(name, "1"))
    assert {name.upper() for name in load_settings().model_fields_set} == set(FROZEN["settings"])


# Tables


def test_applied_migrations_are_never_edited_and_define_these_tables_and_views() -> None:
    found = load_migrations()
    assert {one.name: one.checksum for one in found} == FROZEN["migrations"]
    made = re.compile(r"CREATE (?:OR REPLACE )?(TABLE|VIEW|MATERIALIZED VIEW) (?:IF NOT EXISTS )?(\w+)")
    names = [(m[1].lower(), m[2]) for one in found for text in one.statements if (m := made.match(text))]
    assert {kind: sorted({n for k, n in names if k == kind}) for kind, _ in names} == FROZEN["relations"]


# Metrics and readiness


@pytest.fixture
def worker(tmp_path: Path) -> Callable[[], Worker]:
    """Make a worker that is not started; needs a running loop."""
    options = WorkerOptions(slot="7", slot_dir=tmp_path / "slots")
    snapshot = Snapshot(provider_mode="simulated")
    return lambda: worker_of(
        NOWHERE, Topics(), verification(), simulated_ports(), snapshot, options,
        ending=Ending(), wake=Wake(), budget=UnlimitedBudget(),
    )  # fmt: skip


def budget() -> BudgetLedger:
    return BudgetLedger(NOWHERE, Topics(), LIMITS, Ending(), Wake())


def listener() -> Listener:
    return Listener(NOWHERE, Topics(), list, SimpleNamespace(parsed=0), Options(), b"key")  # type: ignore[arg-type]


def bot() -> BotRunner:
    return BotRunner(BotDefinition(name="b", kind="webhook"), SimpleNamespace(), NOWHERE, Topics())  # type: ignore[arg-type]


async def test_metrics_have_their_names_types_and_labels(worker: Callable[[], Worker]) -> None:
    collectors = {
        "worker": WorkerMetrics(worker(), Publisher(NOWHERE, Topics()), budget()),
        "sink": SinkMetrics(Sink(NOWHERE, Topics(), SimpleNamespace(waiting=False))),  # type: ignore[arg-type]
        "listener": ListenerMetrics(listener()),
        "bot": BotMetrics(bot(), Latencies()),
    }
    found = {
        name: sorted(
            f"{metric.name} {metric.type} ({', '.join(metric._labelnames)})"  # type: ignore[attr-defined]
            for metric in HealthServer(Settings(metrics_port=0), collector, dict).registry.collect()
            if metric.name.startswith("newsproof_")
        )
        for name, collector in collectors.items()
    }
    assert found == FROZEN["metrics"]


async def test_what_readyz_waits_for_is_said_in_these_words(worker: Callable[[], Worker]) -> None:
    working, publisher = worker(), Publisher(NOWHERE, Topics())
    behind: Any = SimpleNamespace(live=False)
    working.projector.partitions = Partitions({0: behind, 2: behind})
    assert working.gate is not None
    unread: Any = SimpleNamespace(safe=None)
    working.gate.intake._news = {0: unread}
    said = {"worker": worker_unready(working, publisher, budget())}
    publisher._lease.known = True
    publisher._lease.held = True
    said["worker, rebuilding"] = worker_unready(working, publisher)
    sink = Sink(NOWHERE, Topics(), None)  # type: ignore[arg-type]
    for name, why in (
        ("sink", TransientError("refused", kind="network")),
        ("sink, ClickHouse hangs", TransientError("silence", kind="timeout")),
        ("sink, ClickHouse refuses", TransientError("too many parts")),
    ):
        sink._tables.waits_for["an insert into events"] = why_not(why, "an insert into events")
        said[name] = sink_unready(sink)
    said["bot"] = bot_unready(bot())
    listening = listener()
    said["listener"] = listener_unready(listening)
    listening._lease.known = True
    assert listener_unready(listening) == {}, "it stands by"
    listening._lease.held = True
    said["listener, reading"] = listener_unready(listening)
    for away in (True, False):
        feed: Any = SimpleNamespace(feed=SimpleNamespace(away=away, ready=False))
        said["web, Kafka away" if away else "web"] = Backend.unready(feed)
    health = HealthServer(Settings(metrics_port=0), SinkMetrics(sink), dict)
    health.pulse._last = float("-inf")
    said["stuck"] = health.ready()[1]
    assert said == FROZEN["readyz"]


# Names on the broker, files beside it


async def test_topics_groups_members_and_transactional_ids_have_their_names(worker: Callable[[], Worker]) -> None:
    conf = worker().app.conf
    called = {
        use: sorted({text for scope, call in calls_of(use) for arg in call.args for text in texts(arg, scope)})
        for use in ("group", "transactional_id")
    }
    found = {
        "topics": {name: list(spec) for name, spec in topic_specs(Topics(), partitions=4).items()},
        "journals": [Topics().journal(graph.flow.name) for graph in (verification(), research())],
        "worker": [conf.id, conf.consumer_group_instance_id],
        **called,
        "research slot": [
            text
            for scope, call in calls_of("replace")
            for one in call.keywords
            if one.arg == "slot"
            for text in texts(one.value, scope)
        ],
        "prefixed": [Topics().group("sink"), Topics().transactional_id("publisher"), Topics("t.").group("sink")],
    }
    assert json.loads(json.dumps(found)) == FROZEN["broker"]


@pytest.mark.usefixtures("empty_directory")
def test_a_slot_keeps_these_files_in_this_format(tmp_path: Path) -> None:
    head, beside = (str(n) * 36 for n in (1, 2))
    slot = WorkerSlot(tmp_path / "slots", "7")
    slot.started(head)
    slot.started(beside)
    slot.ended(beside)
    with slot.executing(head):
        running = (tmp_path / "slots" / "slot-7.running").read_bytes()
    # 65,536 places of 36 bytes, the first one taken first, and behind them the head whose own code runs.
    assert running == head.encode() + bytes(36 * 65_535) + head.encode()
    slot.close()
    (tmp_path / "slots" / "slot-7.crashes").write_text(f"{head} 2\n", "ascii")
    assert WorkerSlot(tmp_path / "slots", "7").crashes == {head: 2}
    assert (tmp_path / "slots" / "slot-7.crashes").read_text("ascii") == f"{head} 2\n"
    assert sorted(path.name for path in (tmp_path / "slots").iterdir()) == ["slot-7.crashes", "slot-7.running"]
    assert worker_options(load_settings()).slot_dir == Path(".data/slots")


# The SDK


def test_programs_import_these_names_with_these_signatures() -> None:
    found = {
        "offers": newsproof.__all__,
        "publish": str(inspect.signature(newsproof.publish)),
        "run_bot": str(inspect.signature(newsproof.run_bot)),
        "subscribe": str(inspect.signature(newsproof.subscribe)).replace(str(ACTED_ON), "ACTED_ON"),
        "report": keys_of(newsproof.PublishReport),
        "news": keys_of(newsproof.News),
        "signal": keys_of(newsproof.Signal),
    }
    assert found == FROZEN["sdk"]


def test_notebooks_call_these_functions_with_these_signatures() -> None:
    found = {name: str(inspect.signature(getattr(notebook, name))) for name in notebook.__all__ if name.islower()}
    assert found == FROZEN["notebook"]


def test_pages_import_nothing_else_of_it_and_the_command_has_its_name() -> None:
    pages = [PROJECT / "README.md", *(PROJECT / "docs").rglob("*.md"), *(PROJECT / "examples").glob("*.py")]
    imported = {
        line for page in pages for line in re.findall(r"^(?:from|import) newsproof\b.*", page.read_text("utf-8"), re.M)
    }
    assert imported == {
        "from newsproof import Signal, run_bot, subscribe",
        "from newsproof import run_bot, subscribe",
        "from newsproof.notebook import compare, outcomes, run, sql",
    }

    project = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"]
    assert (project["name"], list(project["scripts"])) == ("newsproof", ["newsproof"])


# The page's API


def test_the_desk_asks_by_these_names_and_is_answered_by_these_keys() -> None:
    asked = {f"{method} {route.path}": sorted(one.alias for one in get_flat_params(route.dependant) if isinstance(one.field_info, Query))
             for router in (live_api.router, news_api.router, prices_api.router) for route in router.routes
             if isinstance(route, APIRoute) for method in route.methods}  # fmt: skip
    assert {"asked": asked, "status": keys_of(Status), "price": keys_of(PriceSince)} == FROZEN["desk"]


# What commands print with --json


def keys_of(kind: Any) -> list[str]:
    """Return the keys that a type has as JSON, nested ones as paths: ``a.b``, ``[]`` for items, ``{}`` for any key."""
    (schema,), parts = msgspec.json.schema_components(
        (kind,), schema_hook=lambda _: {"type": "object"}, ref_template="{name}"
    )
    return sorted(set(_paths(schema, parts, "")))


def _paths(schema: dict[str, Any], parts: dict[str, Any], at: str) -> Iterator[str]:
    schema = parts.get(schema.get("$ref", ""), schema)
    for name, inner in schema.get("properties", {}).items():
        yield from _paths(inner, parts, f"{at}.{name}".lstrip("."))
    for inner in schema.get("anyOf", ()):
        yield from _paths(inner, parts, at)
    for inner in (schema.get("items"), *schema.get("prefixItems", ())):
        yield from _paths(inner, parts, f"{at}[]") if inner else ()
    if isinstance(inner := schema.get("additionalProperties"), dict):
        yield from _paths(inner, parts, f"{at}{{}}")
    if not {"properties", "anyOf", "items", "prefixItems"} & set(schema) and not isinstance(inner, dict):
        yield at


def written_keys(function: Callable[..., Any]) -> list[str]:
    """Return the keys of all dict literals in a function."""
    tree = ast.parse(inspect.getsource(function))
    dicts = [node for node in ast.walk(tree) if isinstance(node, ast.Dict)]
    return sorted({str(key.value) for node in dicts for key in node.keys if isinstance(key, ast.Constant)})


@pytest.mark.parametrize(
    ("command", "printed"),
    [
        ("audit", AuditReport),
        ("backtest compare", Comparison),
        ("backtest pnl", ProfitReport),
        ("backtest run --dry-run", Estimate),
        ("backtest run", RunSummary),
        ("backtest study", StudyReport),
        ("backtest trials", Look),
        ("backtest watch", WatchResult),
        ("bots demo", BotsSummary),
        ("cases", CountedCase),
        ("config", SettingView),
        ("demo --listen", ListenSummary),
        ("doctor", Check),
        ("doctor --live", CallCheck),
        ("export", Export),
        ("export signals", SignalExport),
        ("labels import", LabelImport),
        ("labels list", LabelSource),
        ("labels report", LabelReport),
        ("memory rebuild", Rebuilt),
        ("outcomes compute", Changes),
        ("outcomes import", ImportReport),
        ("outcomes list", StandingImport),
        ("outcomes remove", RemovedImports),
        ("prompts", Prompt),
        ("report", Report),
        ("watches", WatchView),
        ("sources", ListedSource),
        ("sources check", PolledSource),
        ("sources reputation", Reputation),
    ],
)
def test_json_of_a_command_has_the_keys_of_its_document(command: str, printed: Any) -> None:
    assert keys_of(printed) == FROZEN["json"][command]


@pytest.mark.parametrize(
    ("command", "made_by"),
    [
        ("case replay", (replay_document,)),
        ("dlq list", (letter_document,)),
        ("investigate", (_last_line, _change)),
        ("kafka", (kafka_login, _ways)),
        ("topics describe", (describe_topics,)),
        ("backtest show", (read_run,)),
    ],
)
def test_json_of_a_command_has_the_keys_written_in_the_code(command: str, made_by: tuple[Any, ...]) -> None:
    assert [written_keys(function) for function in made_by] == FROZEN["json"][command]


def test_json_that_is_made_up_where_it_is_printed_has_its_keys() -> None:
    # publish, backtest verify, topics create, dlq requeue.
    found = {
        tuple(node.value if isinstance(node, ast.Constant) else "**" for node in call.args[0].keys)
        for _, call in calls_of("json_line")
        if call.args and isinstance(call.args[0], ast.Dict)
    }
    assert sorted(map(list, found)) == FROZEN["json"]["inline"]
    verified = [c.args[0] for _, c in calls_of("json_line") if isinstance(c.args[0], ast.DictComp)]
    assert [list(ast.literal_eval(one.generators[0].iter)) for one in verified] == [FROZEN["json"]["backtest verify"]]
    assert list(ANSWERS) == FROZEN["json"]["report answers"]
    assert list(SHOWN) == FROZEN["json"]["topics describe, settings"]
    letters = [name for name in DeadLetter.__struct_fields__ if name not in ("key", "value", "headers")]
    assert letters == FROZEN["json"]["dlq list, letter"]


def records_of_case() -> list[JournalRecord]:
    """Return the longest case of the sample, which went all the way, and one record that was passed by."""
    records = sample_records()
    count = Counter(one.envelope.case_id for one in records)
    longest = max(count, key=lambda case_id: (count[case_id], case_id))
    found = [one for one in records if one.envelope.case_id == longest]
    return [*found, msgspec.structs.replace(found[-1], accepted=False)]


def two_levels(document: Any) -> dict[str, Any]:
    """Return the keys of a JSON document and, sorted, those of what stands under each."""
    return {
        name: sorted(
            {key for one in (value if isinstance(value, list) else [value]) if type(one) is dict for key in one}
        )
        for name, value in document.items()
    }


def test_json_of_a_case_and_of_the_budget_have_their_keys() -> None:
    records = records_of_case()
    signal = next(r.event.signal for r in records if isinstance(r.event, SignalSynthesized))
    state = BudgetState()
    state.fold(0, int(NOON.timestamp() * 1000), LIMITS)
    for command, document in (
        ("case", document_of(records, [signal])),
        ("case --events", records[0]),
        ("budget", budget_document(state, NOON)),
    ):
        found = two_levels(json.loads(msgspec.json.encode(document, enc_hook=str)))
        assert found == FROZEN["json"][command], command


@pytest.mark.usefixtures("empty_directory")
def test_json_of_commands_that_need_no_server_is_printed_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLICKHOUSE_URL", "http://u:p@127.0.0.1:1")
    monkeypatch.setenv("CLICKHOUSE_ANALYST_PASSWORD", "p" * 16)
    for command, expected in (
        ("analyst", FROZEN["json"]["analyst"]),
        ("config", FROZEN["json"]["config"]),
        ("schemas export", FROZEN["json"]["schemas export"]),
    ):
        done = CliRunner().invoke(app, [*command.split(), *([] if "schemas" in command else ["--json"])])
        assert sorted(json.loads(done.stdout.splitlines()[0])) == expected, done.output


# Failures, as the journal and the dead letters keep them


SOUGHT = {
    *("Failure", "CaseFailed", "ContractError", "TransientError", "PermanentError", "invalid_output", "dead_letter"),
    *("answer", "checked", "needed", "group", "transactional_id", "replace", "json_line"),
}


@lru_cache(maxsize=1)
def product_calls() -> list[tuple[str, ast.AST, ast.Call]]:
    """Return (name, enclosing function or module, call) of every call of ``SOUGHT`` in the product's code."""
    found: list[tuple[str, ast.AST, ast.Call]] = []

    def look(node: ast.AST, scope: ast.AST) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            scope = node
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if name in SOUGHT:
                found.append((name, scope, node))
        for inner in ast.iter_child_nodes(node):
            look(inner, scope)

    sought = re.compile(rf"\b(?:{'|'.join(sorted(SOUGHT))})\(")
    for path in sorted(path for package in PACKAGES for path in (PROJECT / package).rglob("*.py")):
        if sought.search(text := path.read_text("utf-8")):
            look(tree := ast.parse(text), tree)
    return found


def calls_of(*names: str) -> list[tuple[ast.AST, ast.Call]]:
    """Return (enclosing function or module, call) of every call of these names."""
    assert set(names) <= SOUGHT
    return [(scope, call) for name, scope, call in product_calls() if name in names]


def texts(node: ast.AST | None, scope: ast.AST) -> list[str]:
    """Return the texts that an expression may give, ``{}`` for what is put in; a local name by what is assigned to it."""
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.JoinedStr(values=values):
            return ["".join(str(v.value) if isinstance(v, ast.Constant) else "{}" for v in values)]
        case ast.BinOp(left=left, right=right):
            return [a + b for a in texts(left, scope) for b in texts(right, scope)]
        case ast.IfExp(body=body, orelse=other):
            return texts(body, scope) + texts(other, scope)
        case ast.Subscript(value=value) | ast.Call(args=[value, *_]):
            return texts(value, scope)
        case ast.Name(id=name):
            assigned = [n for n in ast.walk(scope) if isinstance(n, ast.Assign)]
            return [t for n in assigned if name in map(ast.unparse, n.targets) for t in texts(n.value, scope)]
        case _:
            return []


def test_failures_and_dead_letters_have_these_texts() -> None:
    # Errors without a kind are those of commands: nothing records them.
    said = {"Failure": "message", "CaseFailed": "reason"}
    adapters = ("TransientError", "PermanentError")
    found = set()
    for name, scope, call in product_calls():
        given = {one.arg: one.value for one in call.keywords}
        if name in said:
            found |= {f"{name}: {text}" for text in texts(given.get(said[name]), scope)}
        elif name in ("ContractError", "invalid_output") or (name in adapters and "kind" in given):
            found |= {f"{name}: {text}" for text in texts(next(iter(call.args), None), scope)}
    assert sorted(found) == FROZEN["failures"]["texts"]


def test_kinds_of_failures_and_reasons_of_dead_letters_have_their_names() -> None:
    assert list(get_args(FailureKind)) == FROZEN["failures"]["kinds"]
    letters = {
        text
        for scope, call in calls_of("ContractError", "dead_letter")
        for one in call.keywords
        if one.arg == "reason"
        for text in texts(one.value, scope)
    }
    assert sorted(letters) == FROZEN["failures"]["reasons"]


def test_a_reply_of_the_wrong_form_is_recorded_with_the_class_that_it_should_have_been() -> None:
    def message(work: Callable[[], Any]) -> str:
        with pytest.raises(StepFailure) as caught:
            work()
        return str(caught.value)

    assert message(lambda: needed(None, RecallReply)) == "invalid_output: expected RecallReply, got NoneType"
    wrong = "invalid_output: the reply is no RecallReply: Expected `object`, got `int`"
    assert message(lambda: checked(5, RecallReply)) == wrong
    asked = {ast.unparse(c.args[1]) for _, c in calls_of("answer", "checked", "needed") if len(c.args) == 2}
    assert sorted(name for name in asked if name[0].isupper()) == FROZEN["failures"]["classes"]


def test_a_fault_of_a_step_is_recorded_with_the_exceptions_class() -> None:
    assert failure_of(ZeroDivisionError("by zero")).message == "ZeroDivisionError: by zero"
    triage = verification().steps["triage"]
    with pytest.raises(StepFailure) as caught:
        declared(triage, StepStarted(step="triage", crashes=1))
    said = "internal: step triage gave StepStarted, which it does not declare: add it to emits"
    assert str(caught.value) == said


async def test_what_an_adapter_raises_is_recorded_in_this_form() -> None:
    class Broken:
        provider, mode, model = "broken", "live", ""

        def __init__(self, error: Exception) -> None:
            self.error = error

        def __getattr__(self, name: str) -> Any:
            return getattr(simulated_ports().chain(ASKED)[0], name)

        async def perform(self, effect: Any) -> Any:
            raise self.error

    found = []
    for error in (
        TransientError("later", kind="rate_limit", status=429, retry_after_s=2.0),
        PermanentError("no", kind="auth", status=401),
        BudgetExceeded("nothing left"),
        ConfigError("no key"),
        KeyError("field"),
        None,
    ):
        ports = Ports(models={}, recall=None if error is None else Broken(error))  # type: ignore[arg-type]
        (call,) = await EffectsHost(ports).perform(ASKED, case_id="c", head_id="h", attempt=1)
        found.append(msgspec.to_builtins(call.reply))
    assert found == FROZEN["failures"]["of adapters"]


ASKED = Recall(text="t", asset="BTC", as_of=NOON, limit=1, exclude_case="c")


async def test_refusals_of_a_breaker_and_of_the_budget_have_these_texts() -> None:
    breaker = Breakers(clock=lambda: 0.0).of("search", "tavily")
    breaker.record_result(Permit(0, probe=False), Failure(kind="auth", message="wrong key", retryable=False))
    refused = await breaker.enter(wait=False)
    assert isinstance(refused, Failure)
    found = [refused.message]
    state, at = BudgetState(), int(NOON.timestamp() * 1000)
    asked = [("0", "1"), (None, "2"), ("0", "3"), ("0", "4"), ("2", "5")]
    for offset, (usd, id) in enumerate(asked):
        if offset == 1:
            state.fold(100, at, LIMITS)
        record = Reserved(
            id=id, effect="search", provider="tavily", usd=None if usd is None else Decimal(usd),
            units=int(usd == "0"), for_triage=False, case_id="c", head_id="h",
        )  # fmt: skip
        decision = state.fold(offset if offset == 0 else 100 + offset, at, record)
        found.append("" if decision is None else decision.denied)
    assert found == FROZEN["failures"]["refusals"]
