"""A real Kafka as a child process: what it keeps, what it refuses, and that nothing outlives its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaTimeoutError, UnknownTopicOrPartitionError

from infra.embedded.child import ChildProcess, DirectoryLock, free_ports
from infra.embedded.kafka.jars import PinnedJar, default_cache_dir, ensure_jars, read_pins
from infra.embedded.kafka.server import EmbeddedKafka, running_bootstrap
from schemas.errors import ConfigError

CHECKOUT = Path(__file__).parents[3]


@pytest.fixture
def jar_cache(tmp_path: Path) -> Iterator[Path]:
    """A cache of its own with the real jars in it, as links: cheap, and nobody else's is touched."""
    cache = tmp_path / "cache"
    (cache / "kafka-jars").mkdir(parents=True)
    for path in ensure_jars(default_cache_dir()):
        os.link(path, cache / "kafka-jars" / path.name)
    yield cache


async def create_topic(kafka: EmbeddedKafka, name: str) -> None:
    admin = AIOKafkaAdminClient(**kafka.address.client_args())
    await admin.start()
    try:
        await admin.create_topics([NewTopic(name, num_partitions=1, replication_factor=1)])
    finally:
        await admin.close()


async def append(kafka: EmbeddedKafka, topic: str, value: bytes) -> None:
    producer = AIOKafkaProducer(
        **kafka.address.client_args(), acks="all", enable_idempotence=True, max_request_size=5 << 20
    )
    await producer.start()
    try:
        await producer.send_and_wait(topic, value)
    finally:
        await producer.stop()


async def read_all(kafka: EmbeddedKafka, topic: str) -> list[bytes]:
    partition = TopicPartition(topic, 0)
    consumer = AIOKafkaConsumer(**kafka.address.client_args(), group_id=None, max_partition_fetch_bytes=8 << 20)
    await consumer.start()
    try:
        consumer.assign([partition])
        await consumer.seek_to_beginning(partition)
        end = (await consumer.end_offsets([partition]))[partition]
        values = []
        while await consumer.position(partition) < end:
            values.append((await consumer.getone()).value)
        return values
    finally:
        await consumer.stop()


@pytest.mark.slow
async def test_an_acknowledged_record_survives_sigkill_and_the_broker_returns_on_its_port(
    kafka: EmbeddedKafka, capsys: pytest.CaptureFixture[str]
) -> None:
    await create_topic(kafka, "killed")
    await append(kafka, "killed", b"acknowledged")
    bootstrap = kafka.bootstrap
    assert running_bootstrap(kafka.data_dir) == bootstrap
    os.kill(kafka.pid, signal.SIGKILL)
    before = time.monotonic()
    kafka.kill()
    assert running_bootstrap(kafka.data_dir) is None
    await kafka.start()
    seconds = time.monotonic() - before
    with capsys.disabled():
        print(f"[serving again {seconds:.1f} s after SIGKILL]", end="")
    assert kafka.bootstrap == bootstrap
    assert await read_all(kafka, "killed") == [b"acknowledged"]
    assert seconds < 60  # 2 to 4 s on a quiet machine


async def test_a_record_of_four_mebibytes_is_taken(kafka: EmbeddedKafka) -> None:
    await create_topic(kafka, "large")
    await append(kafka, "large", b"x" * (4 << 20))
    assert [len(value) for value in await read_all(kafka, "large")] == [4 << 20]


async def test_a_topic_is_never_made_by_asking_for_it(kafka: EmbeddedKafka) -> None:
    producer = AIOKafkaProducer(**kafka.address.client_args(), request_timeout_ms=500)
    await producer.start()
    try:
        with pytest.raises((UnknownTopicOrPartitionError, KafkaTimeoutError)):
            await producer.send_and_wait("never-created", b"nowhere")
    finally:
        await producer.stop()


async def test_a_second_start_on_the_directory_is_refused_and_names_the_owner(
    kafka: EmbeddedKafka,
) -> None:
    with pytest.raises(ConfigError, match=f"already runs on .*started by process {os.getpid()}"):
        await EmbeddedKafka(kafka.data_dir).start()
    assert kafka.running


async def test_the_address_of_a_running_broker_is_found_through_its_directory(
    kafka: EmbeddedKafka,
) -> None:
    """And that of one that ended is not: see the test of SIGKILL, which starts it again."""
    assert running_bootstrap(kafka.data_dir) == kafka.bootstrap


async def test_a_port_in_use_is_refused_before_anything_starts(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    port = int(kafka.bootstrap.rpartition(":")[2])
    other = EmbeddedKafka(tmp_path, port=port)
    with pytest.raises(ConfigError, match=f"Port {port} of 127.0.0.1 is in use"):
        await other.start()
    assert not other.running


async def test_a_start_that_fails_shows_the_end_of_the_log(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "cluster-id").write_text("A")  # Says that it is formatted, and is not.
    with pytest.raises(ConfigError, match=r"(?s)exited with status .*meta\.properties"):
        await EmbeddedKafka(broken).start()


async def test_only_loopback_is_listened_on(kafka: EmbeddedKafka) -> None:
    listening = {
        connection.laddr.ip
        for connection in psutil.Process(kafka.pid).net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    }
    assert {address.removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}


def test_a_changed_jar_is_refused_by_name(jar_cache: Path) -> None:
    assert ensure_jars(jar_cache)  # Stamped as right: a later change must still be seen.
    jar = jar_cache / "kafka-jars" / next(p.file_name for p in read_pins() if ":kafka-clients:" in p.coordinates)
    content = bytearray(jar.read_bytes())
    content[1000] ^= 1
    jar.unlink()
    jar.write_bytes(content)
    with pytest.raises(ConfigError, match=r"kafka-clients-.*jar is not .* that this project pins") as refusal:
        ensure_jars(jar_cache)
    assert str(jar) in str(refusal.value)
    assert "Delete that file" in str(refusal.value)


async def test_a_broker_with_a_changed_jar_is_not_started(jar_cache: Path, tmp_path: Path) -> None:
    jar = sorted((jar_cache / "kafka-jars").glob("*.jar"))[0]
    jar.unlink()
    jar.write_bytes(b"not the jar")
    kafka = EmbeddedKafka(tmp_path / "data", cache_dir=jar_cache)
    with pytest.raises(ConfigError, match="Nothing was started"):
        await kafka.start()
    assert not kafka.running
    DirectoryLock(tmp_path / "data", what="the test").acquire()  # Free again.


def test_a_jar_that_cannot_be_fetched_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (port,) = free_ports(1)
    home = tmp_path / "home"
    (home / ".config").mkdir(parents=True)
    (home / ".config" / "jgo.conf").write_text(f"[repositories]\nmirror = http://127.0.0.1:{port}\n")
    monkeypatch.setenv("HOME", str(home))
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    pins = [PinnedJar("org.example:absent:1", "0" * 64)]
    with pytest.raises(ConfigError, match=r"Could not download org\.example:absent:1 .*Check the network"):
        ensure_jars(tmp_path / "cache", pins)
    assert not list((tmp_path / "cache").rglob("*.jar"))


def test_every_pin_names_one_jar_and_a_whole_hash() -> None:
    pins = read_pins()
    assert len({pin.file_name for pin in pins}) == len(pins) >= 40
    assert all(len(bytes.fromhex(pin.sha256)) == 32 for pin in pins)
    assert any(pin.coordinates.startswith("org.apache.kafka:kafka_2.13:") for pin in pins)


PARENT = """
import asyncio, sys
from pathlib import Path
from infra.embedded.child import ChildProcess, DirectoryLock
async def main():
    lock = DirectoryLock(Path(sys.argv[1]), what="The parent")
    lock.acquire()
    child = ChildProcess("child", ["sleep", "600"], log_file=Path(sys.argv[1]) / "log", keep_fds=[lock.fd])
    # From a thread, which ends at once: the child is the process's, not the thread's.
    await asyncio.to_thread(child.start)
    print(child.pid, flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_child_ends_with_its_parent_however_that_ends(tmp_path: Path, ending: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        with pytest.raises(ConfigError, match=f"started by process {parent.pid}"):
            DirectoryLock(tmp_path, what="The test").acquire()
        # As the terminal does on Ctrl-C: to the whole foreground group, in which the child is not.
        os.killpg(parent.pid, ending)
    ended(child, within_s=30)
    DirectoryLock(tmp_path, what="The test").acquire()


def ended(process: psutil.Process, *, within_s: float) -> None:
    """Wait for a process that is not our child; one that nobody has reaped yet has ended too."""
    deadline = time.monotonic() + within_s
    while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline, f"process {process.pid} outlived its parent"
        time.sleep(0.01)


async def test_a_child_that_does_not_obey_is_killed_when_its_time_is_up(tmp_path: Path) -> None:
    stubborn = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
    )
    child = ChildProcess("stubborn", [sys.executable, "-c", stubborn], log_file=tmp_path / "log")
    child.start()

    async def up() -> bool:
        return "up" in child.log_tail()

    await child.wait_until(up, timeout_s=60)
    assert await child.stop(timeout_s=0.2) == -signal.SIGKILL
    assert not child.running


async def test_what_a_child_started_itself_is_killed_with_it(tmp_path: Path) -> None:
    child = ChildProcess("family", ["sh", "-c", "sleep 600 & echo $!; wait"], log_file=tmp_path / "log")
    child.start()

    async def told() -> bool:
        return child.log_tail().strip().isdigit()

    await child.wait_until(told, timeout_s=60)
    grandchild = psutil.Process(int(child.log_tail()))
    child.kill()
    ended(grandchild, within_s=30)


async def test_a_child_that_is_never_ready_is_killed_and_says_why(tmp_path: Path) -> None:
    child = ChildProcess("slow", ["sh", "-c", "echo still thinking; exec sleep 600"], log_file=tmp_path / "log")
    child.start()

    async def never() -> bool:
        return False

    async def thinking() -> bool:
        return "thinking" in child.log_tail()

    await child.wait_until(thinking, timeout_s=60)
    with pytest.raises(ConfigError, match=r"(?s)slow was not ready within 0.3 s.*still thinking"):
        await child.wait_until(never, timeout_s=0.3)
    assert child.returncode == -signal.SIGKILL
