"""``lab bench``: the measurements by name, as a table or one line of JSON."""

from __future__ import annotations

import argparse
import asyncio
import platform
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import psutil

from lab.bench import (
    analytics,
    auditing,
    installation,
    intake,
    lease,
    measures,
    memory,
    queue,
    replay,
    sink,
    stories,
    verifications,
    workers,
)
from lab.bench.feeds import bots, feed_search, listen, streams, watches
from lab.bench.measures import Figure
from lab.bench.simulated import calibration, nulls
from lab.bench.starts import commands, start
from newsproof.app.sheet import figures_table as table
from newsproof.app.sheet import json_line

MEASURES: dict[str, Callable[..., Coroutine[Any, Any, list[Figure]]]] = {
    "waiting": measures.waiting,
    "workers": workers.workers,
    "steps": measures.steps_and_reading,
    "latency": measures.latency,
    "audit": auditing.audited,
    "queue": queue.queue,
    "sink": sink.sink,
    "memory": memory.memory,
    "replay": replay.replayed,
    "start": start.start,
    "streams": streams.streams,
    "nulls": nulls.nulls,
    "calibration": calibration.calibration,
    "listen": listen.listen,
    "feeds": feed_search.feeds,
    "stories": stories.stories,
    "watches": watches.watches,
    "bots": bots.bots,
    "rest": installation.rest,
    "burst": installation.burst,
    "analytics": analytics.analytics,
    "commands": commands.commands,
    "lease": lease.lease,
    "intake": intake.intake,
    "verifications": verifications.verifications,
}


def main(argv: list[str] | None = None) -> int:
    """Run the named measurements (all by default) and print their figures."""
    args = _parser().parse_args(argv)
    sized: dict[str, tuple[Any, ...]] = {
        "queue": (args.news,),
        "audit": (args.events or auditing.EVENTS,),
        "sink": (args.events or sink.EVENTS,),
        "memory": (args.entries,),
        "replay": (args.cases or (replay.CASES,))[:1],
        "start": tuple(args.cases or start.CASES),
        "streams": (args.seconds,),
        "nulls": (args.repetitions,),
        "calibration": (args.repetitions,),
        "listen": (args.items, args.kills, args.seed),
        "feeds": (args.items, args.seed),
        "watches": (args.seed,),
    }
    figures: list[Figure] = []
    for name in args.measure or MEASURES:
        print(f"measuring {name} …", file=sys.stderr, flush=True)
        figures += asyncio.run(MEASURES[name](*sized.get(name, ())))
    if args.json:
        json_line({"machine": machine(), "figures": figures})
    else:
        _table(figures)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -P -m lab bench", description=__doc__)
    parser.add_argument(
        "measure",
        nargs="*",
        choices=[[], *MEASURES],
        help=", ".join(MEASURES),
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line of standard output")
    parser.add_argument("--news", type=int, default=queue.NEWS, help="number of news items in the queue (queue)")
    parser.add_argument(
        "--events",
        type=int,
        help=f"number of events in the journal (audit: {auditing.EVENTS:,}, sink: {sink.EVENTS:,})",
    )
    parser.add_argument("--entries", type=int, default=memory.ENTRIES, help="number of past cases in memory (memory)")
    parser.add_argument(
        "--cases",
        type=int,
        nargs="+",
        help=f"number of replayed cases (replay: {replay.CASES:,}), or of cases before a start (start: several numbers, for the slope)",
    )
    parser.add_argument(
        "--seconds", type=int, default=streams.SECONDS, help="duration of the signal stream in seconds (streams)"
    )
    parser.add_argument(
        "--repetitions", type=int, default=nulls.REPETITIONS, help="number of draws per situation (nulls, calibration)"
    )
    parser.add_argument(
        "--items", type=int, default=listen.ITEMS, help="number of feed items (listen: published, feeds: searched)"
    )
    parser.add_argument(
        "--kills", type=int, default=listen.KILLS, help="number of SIGKILLs of listener and broker (listen)"
    )
    parser.add_argument("--seed", type=int, default=1, help="random seed of the plan (listen, feeds, watches)")
    return parser


def machine() -> str:
    """Describe the machine in one line, without its name."""
    gib = psutil.virtual_memory().total / 2**30
    load = ", ".join(f"{x:.1f}" for x in psutil.getloadavg())
    return f"{psutil.cpu_count()} cores, {gib:.0f} GiB, Python {platform.python_version()}, load {load}"


def _table(figures: list[Figure]) -> None:
    rows = []
    for f in figures:
        value = f"{f.value:,.3f}" if f.unit == "share" else f"{f.value:,.1f}" if f.value < 1000 else f"{f.value:,.0f}"
        rows.append((f.name, value, f.unit, f.target, "" if f.ratio is None else f"{f.ratio:.2f}", f.baseline))
    columns = ("measurement", "value", "unit", "target", "ratio", "baseline")
    table(columns, rows, title=machine(), right=("value", "ratio"))
