"""A worker process of the plain graph, for benchmarks: ``python -m lab.bench.worker --help``."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import time
from pathlib import Path

from infra.kafka.topics import KafkaAddress
from newsproof.app.logging_setup import configure_logs
from newsproof.app.terminal import guard_output
from schemas.config import Snapshot
from schemas.topics import Topics
from streams.composition import worker_of
from streams.effects.spending import UnlimitedBudget
from streams.ending import Ending
from streams.publish.publisher import Publisher
from streams.runtime.options import WorkerOptions
from streams.wake import Wake
from tests.plain_graph import plain_registry, simulated_ports

LOOK_S = 0.05


def main() -> None:
    """Run until SIGTERM; exit 1 on a fatal error of the worker."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--password-file", required=True, help="of the embedded broker there")
    parser.add_argument("--prefix", default="newsproof.")
    parser.add_argument("--slot", default="0")
    parser.add_argument("--slot-dir", type=Path, required=True)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds of each step's one call; 0: no calls")
    parser.add_argument("--max-open", type=int, default=2000)
    parser.add_argument("--in-flight", type=int, default=8000)
    parser.add_argument("--commit-interval", type=float, default=1.0)
    parser.add_argument("--session-timeout", type=float, default=10.0)
    parser.add_argument(
        "--active-file", type=Path, help="takes a line when it begins or ceases to publish: time, 1 or 0"
    )
    args = parser.parse_args()
    configure_logs()
    import uvloop

    with contextlib.suppress(KeyboardInterrupt):
        uvloop.run(_run(args))


async def _run(args: argparse.Namespace) -> None:
    address, topics = KafkaAddress.embedded(args.bootstrap, args.password_file), Topics(args.prefix)
    options = WorkerOptions(
        slot=args.slot,
        slot_dir=args.slot_dir,
        partitions=args.partitions,
        max_open_cases=args.max_open,
        step_concurrency=args.in_flight,
        effects_in_flight=args.in_flight,
        session_timeout_s=args.session_timeout,
        commit_interval_s=args.commit_interval,
    )
    registry = plain_registry(asks=args.latency > 0)
    snapshot = Snapshot(provider_mode="simulated")
    ending = Ending()
    worker = worker_of(
        address, topics, registry, simulated_ports(args.latency), snapshot, options,
        ending=ending, wake=Wake(), budget=UnlimitedBudget(),
    )  # fmt: skip
    publisher = Publisher(address, topics, appender=worker.appender)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, ending.stop)
    publishing = asyncio.create_task(publisher.run())
    publishing.add_done_callback(lambda t: t.cancelled() or t.exception() is None or ending.fail(t.exception()))  # type: ignore[arg-type,func-returns-value]
    telling = asyncio.create_task(_tell(publisher, args.active_file)) if args.active_file else None
    try:
        await worker.run()
    finally:
        if telling is not None:
            telling.cancel()
        publisher.stop()
        await publishing


async def _tell(publisher: Publisher, active_file: Path) -> None:
    was = False
    with active_file.open("a", encoding="ascii") as lines:
        try:
            while True:
                if publisher.active != was:
                    was = publisher.active
                    print(time.time(), int(was), file=lines, flush=True)
                await asyncio.sleep(LOOK_S)
        finally:
            print(time.time(), 0, file=lines, flush=True)


if __name__ == "__main__":
    guard_output()
    main()
