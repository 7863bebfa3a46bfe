"""What all tests share: one embedded Kafka and one embedded ClickHouse a run, topics of its own for each test, and an
environment without anybody's settings or keys."""

from __future__ import annotations

import asyncio
import fcntl
import gc
import os
import signal
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest
import structlog
from hypothesis import HealthCheck, settings

from infra import late_log, redaction
from infra.clickhouse.client import Address, ClickHouse, connect
from infra.embedded.clickhouse.server import EmbeddedClickHouse
from infra.embedded.kafka.server import EmbeddedKafka
from infra.kafka.topics import KafkaAddress, ensure_topics, topic_specs
from infra.origin import is_entry
from infra.settings import Settings
from newsproof.app import terminal
from schemas.topics import Topics
from tests.evaluation.stored import copy_schema
from tests.logging_state import preserve_logging

if TYPE_CHECKING:
    from tests.streams.world import World

PARTITIONS = 2
TESTS = Path(__file__).parent

# Nothing that collecting makes is garbage, and looking for some takes a fifth of its time.
gc.disable()

# How fast examples are drawn says something of the machine (the first run in a new home builds Unicode tables), nothing of
# the code. CI draws the same ones every time; elsewhere every run looks at new ones.
settings.register_profile(
    "suite", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=bool(os.environ.get("CI"))
)
settings.register_profile("quick", settings.get_profile("suite"), max_examples=30)
settings.load_profile("suite")

# Rich draws a traceback in a second.
structlog.get_config()["processors"][-1].exception_formatter = structlog.dev.plain_traceback

# A shell starts background jobs with Ctrl-C ignored, and children inherit that; tests of Ctrl-C need it heard.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


LONG_FILES = (
    *("test_chaos_short.py", "test_no_secret_gets_out.py", "test_hostile.py", "test_requeue.py", "test_demo.py"),
    *("test_up.py", "test_outcomes.py", "test_start.py", "test_page_live.py", "test_page_chinese.py"),
    *("test_page_accessibility.py", "test_acceptance_run.py", "test_one_key_is_enough.py", "test_chaos_brokers.py"),
    *("test_shadow.py", "test_publisher.py", "test_supervisor.py", "test_parquet_export.py", "test_lease.py"),
    *("test_research.py", "test_steps.py", "test_budget.py", "test_page_research.py", "test_web_tables.py"),
)
"""They go first: a process that begins one of them last leaves the other with nothing to do."""


SLOW_FOLDERS = {"browser", "containers"}
"""Folders of which the quick set holds nothing: every test in them needs a browser, or servers in containers."""


def pytest_configure(config: pytest.Config) -> None:
    """Draw fewer examples in the quick set, which runs often; `--all` and single files draw all."""
    if config.option.markexpr == "not slow":
        settings.load_profile("quick")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the long files before all others, mark whole folders as slow, and leave out ``foreign`` unless it is asked for, and ``long`` in CI."""
    unwanted = [] if "foreign" in config.option.markexpr else ["foreign"]
    unwanted += ["long"] if os.environ.get("CI") else []
    left_out = {item for item in items if any(map(item.get_closest_marker, unwanted))}
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]
    for item in items:
        if SLOW_FOLDERS & set(item.path.relative_to(TESTS).parts):
            item.add_marker("slow")
    rank = {name: n for n, name in enumerate(LONG_FILES)}
    items.sort(key=lambda item: rank.get(item.path.name, len(rank)))


def pytest_collection_finish() -> None:
    """Take what is imported and collected by now, which lives to the end, out of every later garbage collection."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def _nobodys_settings(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads the settings or spends the keys of whoever runs it, but those that are marked for it."""
    if request.node.get_closest_marker("integration") is None:
        ours = (n for n in os.environ if n.lower() in Settings.model_fields or is_entry(n.lower()))
        for name in list(ours):
            monkeypatch.delenv(name)
    for option in ("data_dir", "env_file"):  # a test may run the command line in this process
        monkeypatch.setattr(terminal.GIVEN, option, None)
    monkeypatch.delenv("COLUMNS", raising=False)  # which pytest-xdist sets: tables would be as narrow as a terminal


@pytest.fixture(autouse=True)
def _secrets_of_one_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers for redaction is forgotten after it: its secret may be an ordinary word in another's texts."""
    monkeypatch.setattr(redaction, "_known", list(redaction._known))


@pytest.fixture(autouse=True)
def _logs_of_one_test(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Restore the logging that a command in this process changed, including what waits for the first message."""
    monkeypatch.setattr(late_log, "_pending", [])
    with preserve_logging():
        yield


Server = TypeVar("Server", EmbeddedKafka, EmbeddedClickHouse)


def _shared(request: pytest.FixtureRequest, make: Callable[[Path], Server]) -> Server:
    """Return a server that all test processes of this run use. The first that needs it starts it, and ends with it.

    In the others it is as good as a running one for its address and its directory.
    """
    factory: pytest.TempPathFactory = request.getfixturevalue("tmp_path_factory")
    base, name = factory.getbasetemp(), str(request.fixturename)
    folder = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    running, users = folder / f"{name}.running", (folder / f"{name}.users").open("a")
    with (folder / f"{name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if running.exists():
            fcntl.flock(users, fcntl.LOCK_SH)
            request.config.add_cleanup(users.close)
            directory, port = running.read_text().rsplit(":", 1)
            server = make(Path(directory))
            server._port = int(port)
            return server
        server = make(factory.mktemp(name))
        asyncio.run(server.start())
        running.write_text(f"{server.data_dir}:{server._port}")

    def stop() -> None:
        running.unlink()  # who comes now starts another
        fcntl.flock(users, fcntl.LOCK_EX)
        asyncio.run(server.stop())

    # Not at the end of the last test, which has a time limit.
    request.config.add_cleanup(stop)
    return server


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest) -> EmbeddedKafka:
    """A real broker for the whole run; tests keep apart by their topics' prefixes, and do not stop it."""
    return _shared(request, EmbeddedKafka)


@pytest.fixture(scope="session")
def clickhouse_engine(request: pytest.FixtureRequest) -> EmbeddedClickHouse:
    """A real engine for the whole run; tests keep apart by their databases, and do not stop it."""
    return _shared(request, lambda directory: EmbeddedClickHouse(directory, memory_bytes=2 * 1024**3))


@pytest.fixture
async def empty(clickhouse_engine: EmbeddedClickHouse) -> AsyncIterator[ClickHouse]:
    """A client of a database that does not exist yet."""
    at = Address(host=clickhouse_engine.host, port=clickhouse_engine.port)
    async with connect(at, database=f"test_{uuid.uuid4().hex[:10]}") as client:
        yield client


DATABASE = f"shared_{os.environ.get('PYTEST_XDIST_WORKER', 'gw0')}"
"""The database of this test process, which it empties before each test."""

FILLED = """SELECT name FROM system.tables
WHERE database = currentDatabase() AND engine LIKE '%MergeTree' AND total_rows > 0 AND name != 'migrations'"""


@pytest.fixture(scope="session")
def migrated(clickhouse_engine: EmbeddedClickHouse) -> Address:
    """Where the database ``DATABASE`` with the newest schema is: one for all tests of this process."""
    asyncio.run(copy_schema(clickhouse_engine, DATABASE))
    return Address(host=clickhouse_engine.host, port=clickhouse_engine.port)


@pytest.fixture
async def clickhouse(migrated: Address) -> AsyncIterator[ClickHouse]:
    """A client of a database with the newest schema and nothing in it."""
    async with connect(migrated, database=DATABASE) as client:
        for (table,) in (await client.query(FILLED)).rows:
            await client.command(f"TRUNCATE TABLE {table}")
        yield client


@pytest.fixture
def topics() -> Topics:
    """Names of this test alone; nothing is created."""
    return Topics(f"t{uuid.uuid4().hex[:10]}.")


@pytest.fixture
def address(kafka: EmbeddedKafka) -> KafkaAddress:
    """Where the session's broker is."""
    return kafka.address


@pytest.fixture
async def made_topics(topics: Topics, address: KafkaAddress) -> AsyncIterator[Topics]:
    """The same, created with two partitions."""
    await ensure_topics(address, topics, partitions=PARTITIONS, replication=1)
    yield topics
    async with address.admin() as admin:  # a broker needs more time and memory for each topic that it has
        await admin.delete_topics(list(topic_specs(topics, partitions=PARTITIONS)))


@pytest.fixture
async def world(address: KafkaAddress, topics: Topics, tmp_path: Path) -> AsyncIterator[World]:
    """An installation of this test alone on the session's real Kafka: two partitions of everything, empty."""
    from tests.streams.world import World  # the whole runtime, which most tests do not need

    async with World.made(address, topics.prefix, tmp_path / "slots", partitions=PARTITIONS) as world:
        yield world
    # What died in a test leaves futures that nobody looks at; Python 3.11 breaks when their report falls into a compile.
    gc.collect()
