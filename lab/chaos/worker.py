"""A worker, research worker or sink of a chaos run: the real service with the chaos adapters and armed failpoints.

Workers and sink have the chaos graph for news; the research worker has the product's graphs, and its offline adapters.
``python -m lab.chaos.worker worker|research|sink --help``. Settings come from the environment, as for any service.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from infra.settings import load_settings
from lab.chaos.adapter import ProviderClient, chaos_ports, research_ports
from lab.chaos.graph import chaos_registry
from lab.chaos.inflight import InFlight
from lab.chaos.waits import WAITS, waits
from newsproof.app import exits
from newsproof.app.composition import clickhouse_of
from newsproof.app.invocation import run
from newsproof.app.processes.services import run_research, run_sink, run_worker
from newsproof.app.terminal import guard_output
from streams import failpoints
from streams.publish.publisher import Publisher
from streams.worker import Worker

_LOOK_S = 0.1
STARVED_S = 3.0
"""An event loop stalled for this long may have missed its heartbeats, as if the process had been frozen."""
NOTICED_S = 5.0
"""Time after which a process that lost its group membership has been notified."""


def main() -> None:
    """Run until SIGTERM, or until a failpoint ends it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=[*_WORKS])
    parser.add_argument("--control", type=Path, required=True, help="file that names a failpoint at SIGUSR1")
    parser.add_argument("--inflight", type=Path, help="file of the counters of calls in flight (workers)")
    parser.add_argument("--provider", type=int, help="port of the provider process (workers)")
    args = parser.parse_args()
    settings = load_settings()
    try:
        run(_WORKS[args.what](args), service=settings)
    except Exception as exc:
        print(f"newsproof: {exits.text_of(exc)}", file=sys.stderr, flush=True)
        sys.exit(exits.status_of(exc))


def _listen(control: Path) -> None:
    failpoints.listen(control)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR2, _say_waits)
    # From now on SIGUSR1 arms a failpoint; earlier it would have ended the process.
    control.with_suffix(".ready").write_text(str(os.getpid()), "ascii")


def _say_waits() -> None:
    for line in waits():
        print(f"{WAITS}{line}", file=sys.stderr, flush=True)


def _counting(args: argparse.Namespace) -> tuple[InFlight, ProviderClient]:
    _listen(args.control)
    inflight = InFlight(args.inflight)
    failpoints.arm(failpoints.EFFECT_BEFORE, inflight.work_begins)
    failpoints.arm(failpoints.DRAINED, inflight.drained)
    # Not the loop's signal handler: it would run after the loop's ready callbacks, which could begin calls before it.
    signal.signal(signal.SIGCONT, lambda _number, _frame: inflight.thawed())
    return inflight, ProviderClient(args.provider, inflight)


async def _worker(args: argparse.Namespace) -> None:
    inflight, client = _counting(args)
    looking: list[asyncio.Task[None]] = []

    def starting(_worker: Worker, publisher: Publisher) -> None:
        looking.append(asyncio.create_task(_watch(inflight, lambda: publisher.active), name="chaos-watch"))

    ports = chaos_ports(client)
    await run_worker(load_settings(), take_over=True, registry=chaos_registry(), ports=ports, starting=starting)
    for task in looking:
        task.cancel()


async def _research(args: argparse.Namespace) -> None:
    inflight, client = _counting(args)
    looking = asyncio.create_task(_watch(inflight, lambda: False), name="chaos-watch")
    settings = load_settings()
    await run_research(settings, take_over=True, ports=research_ports(settings, clickhouse_of(settings), client))
    looking.cancel()


async def _watch(inflight: InFlight, publishing: Callable[[], bool]) -> None:
    loop = asyncio.get_running_loop()
    while True:
        inflight.publishing(publishing())
        before = loop.time()
        await asyncio.sleep(_LOOK_S)
        if loop.time() - before > STARVED_S:
            inflight.thawed()
            loop.call_later(NOTICED_S, inflight.drained)


async def _sink(args: argparse.Namespace) -> None:
    _listen(args.control)
    await run_sink(load_settings(), registry=chaos_registry())


_WORKS = {"worker": _worker, "research": _research, "sink": _sink}


if __name__ == "__main__":
    guard_output()
    main()
