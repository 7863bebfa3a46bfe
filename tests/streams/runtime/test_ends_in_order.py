"""A worker that is asked to end hands back within ten seconds; one whose partition stalls ends so that it is started again."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from infra.kafka.topics import members_of
from newsproof.app import exits
from newsproof.app.processes.supervisor import MUST_BE_MENDED
from schemas.errors import TransientError
from streams.runtime import watchdog
from tests.newsproof.command import environment
from tests.plain_graph import plain_registry
from tests.streams.graphs import Gate
from tests.streams.world import World

END_WITHIN_S = 10.0
MARGIN_S = 20.0
"""What a loaded machine may add; the worker itself gives up waiting by then."""

SLOW_WORKER = """
import asyncio, sys, time
from pathlib import Path
import newsproof.app.composition as composition
import newsproof.app.processes.services as services
from tests.plain_graph import simulated_ports
from infra.settings import load_settings
from tests.plain_graph import plain_registry
from tests.streams.graphs import Gate
from newsproof.app.logging_setup import configure_logs

composition.ports_of = lambda *_, **__: simulated_ports(latency_s=60.0)
services.verification = lambda: plain_registry(asks=True)
configure_logs()
asyncio.run(services.run_worker(load_settings()))
"""


@pytest.mark.slow
async def test_a_worker_with_long_calls_hands_back_within_ten_seconds_and_another_goes_on_at_once(
    world: World, tmp_path: Path
) -> None:
    process = subprocess.Popen(  # noqa: ASYNC220 - starts at once; its end is awaited in a thread
        [sys.executable, "-P", "-c", SLOW_WORKER],
        cwd=tmp_path,
        env=environment(
            **world.address.as_environment(), NEWSPROOF_TOPIC_PREFIX=world.topics.prefix,
            TOPIC_PARTITIONS=str(world.partitions), CLICKHOUSE_URL="http://127.0.0.1:1", NEWSPROOF_MODE="offline",
            WORKER_SLOT="slow", METRICS_PORT="0",
        ),
        stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        await world.publish(*range(4))
        await world.until(lambda: opened(world), within_s=90)
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        _, said = await asyncio.to_thread(process.communicate, timeout=END_WITHIN_S + MARGIN_S)
        took = time.monotonic() - began
        assert process.returncode == exits.OK, said.decode()
        assert took < END_WITHIN_S + MARGIN_S
        events = [json.loads(line)["event"] for line in said.decode().splitlines() if line.startswith("{")]
        assert "worker ended in order" in events
        # It left its group before it ended: nobody waits for its session to time out.
        assert await members_of(world.address, world.topics.group("worker")) == []
        async with world.working(plain_registry(asks=True), slot="other"):
            report = await world.until_closed(4)
        assert report.clean and report.repeated_calls == 0
    finally:
        process.kill()
        process.wait()


async def opened(world: World) -> bool:
    """Whether all four cases are open, and wait for their first call."""
    return sum((await world.ends(world.topics.cases)).values()) == 4


@pytest.mark.slow
async def test_a_stalled_partition_ends_the_worker_with_a_status_that_is_started_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(_partition: int) -> bool:
        return False

    with pytest.raises(TransientError, match=r"nothing was read from .*cases-0 for a minute") as error:
        async with world.working(plain_registry(asks=True)) as worker:
            await world.until(lambda: worker.assigned and all(p.live for p in worker.projector.partitions.values()))
            monkeypatch.setattr(watchdog, "STALL_EXIT_S", 0.5)
            monkeypatch.setattr(worker.projector, "is_at_the_end", never)
            # The broker says that there is more, and nothing comes: as when a fetcher is stuck.
            monkeypatch.setattr(worker.app, "highwater", lambda topic, partition: 10 if partition == 0 else 0)
            await world.until(lambda: worker.stalled_s(time.monotonic())[0] > 0)
            await asyncio.wait_for(worker.ending.wait(), 60)
    # The supervisor starts again whatever does not say that a person must mend something first.
    assert exits.status_of(error.value) not in (exits.OK, MUST_BE_MENDED)


async def test_a_worker_that_its_group_has_dropped_gives_up_what_runs_and_appends_nothing_of_it(world: World) -> None:
    held = Gate()
    async with world.working(plain_registry(asks=True), ports=held.ports()) as worker:
        await world.publish(1)
        await world.until(lambda: held.asked == 1)
        worker.app.consumer._thread._consumer._coordinator.reset_generation()  # as after a heartbeat of an unknown member
        await world.until(lambda: held.given_up == 1 and held.asked == 2)
        held.opened.set()
        report = await world.until_closed(1)
    assert (report.repeated_records, worker.repaid_at_rebalance) == (0, 1)


@pytest.mark.parametrize("broken", ["coordination", "fetch"])
async def test_a_worker_whose_consumer_lost_a_background_task_ends_so_that_it_is_started_again(
    world: World, broken: str
) -> None:
    with pytest.raises(
        TransientError, match=r"the Kafka consumer ended: .*(no such luck|during data retrieval)"
    ) as error:
        async with world.working(plain_registry(asks=True)) as worker:
            await world.until(lambda: worker.assigned)
            consumer = worker.app.consumer._thread._consumer

            async def fails(*_args: Any) -> None:
                raise RuntimeError("no such luck")

            if broken == "coordination":
                consumer._coordinator._maybe_do_autocommit = fails
                consumer._coordinator.coordinator_dead()
            else:
                consumer._fetcher._proc_fetch_request = fails
            await world.until(lambda: False)  # until it has ended
    assert exits.status_of(error.value) not in (exits.OK, MUST_BE_MENDED)
