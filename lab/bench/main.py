"""``lab bench``: the measurements by name, as a table or one line of JSON."""

from __future__ import annotations

import asyncio
import platform
import sys
from collections.abc import Callable, Coroutine, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import psutil

from newsproof.app.sheet import figures_table, json_line

if TYPE_CHECKING:
    from lab.bench.measures import Figure

MEASURES = {
    "waiting": "measures.waiting",
    "workers": "workers.workers",
    "steps": "measures.steps_and_reading",
    "latency": "measures.latency",
    "audit": "auditing.audited",
    "queue": "queue.queue",
    "sink": "sink.sink",
    "memory": "memory.memory",
    "replay": "replay.replayed",
    "start": "starts.start.start",
    "streams": "feeds.streams.streams",
    "nulls": "simulated.nulls.nulls",
    "calibration": "simulated.calibration.calibration",
    "listen": "feeds.listen.listen",
    "feeds": "feeds.feed_search.feeds",
    "stories": "stories.stories",
    "watches": "feeds.watches.watches",
    "bots": "feeds.bots.bots",
    "rest": "installation.rest",
    "burst": "installation.burst",
    "analytics": "analytics.analytics",
    "commands": "starts.commands.commands",
    "lease": "lease.lease",
    "intake": "intake.intake",
    "verifications": "verifications.verifications",
}
"""Name of each measurement, and its function in this package."""
SIZES = {
    "queue": ("news",),
    "audit": ("events",),
    "sink": ("events",),
    "memory": ("entries",),
    "replay": ("cases",),
    "start": ("cases",),
    "streams": ("seconds",),
    "nulls": ("repetitions",),
    "calibration": ("repetitions",),
    "listen": ("items", "kills", "seed"),
    "feeds": ("items", "seed"),
    "watches": ("seed",),
}
"""Options that a measurement takes. One that is not given has the function's default."""


def measured(names: Sequence[str], *, as_json: bool, **options: int | None) -> None:
    """Run the named measurements and print their figures."""
    figures: list[Figure] = []
    for name in names:
        print(f"measuring {name} …", file=sys.stderr, flush=True)
        module, _, function = MEASURES[name].rpartition(".")
        measure: Callable[..., Coroutine[Any, Any, list[Figure]]]
        measure = getattr(import_module(f"lab.bench.{module}"), function)
        given = {option: value for option in SIZES.get(name, ()) if (value := options[option]) is not None}
        figures += asyncio.run(measure(**given))
    if as_json:
        json_line({"machine": machine(), "figures": figures})
    else:
        _table(figures)


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
    figures_table(columns, rows, title=machine(), right=("value", "ratio"))
