"""Follow one news item through a running installation, and count the files that it passes through.

Run it in the project's directory: ``PYTHONPATH=. .venv/bin/python -P -m lab follow``.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import httpx
import msgspec

from infra.offline.sample_news import sample_news
from infra.settings import Settings
from lab.hostile.main import settings_for
from newsproof.app import exits
from newsproof.app.composition import address_of, clickhouse_of, prepare_topics, topics_of
from newsproof.app.logging_setup import configure_logs
from newsproof.app.processes.health import sink_unready, worker_unready
from newsproof.app.processes.lifecycle import run_until
from newsproof.app.processes.services import run_worker
from newsproof.app.processes.supervisor import prepare_tables
from newsproof.app.servers import servers
from newsproof.app.sheet import json_line, say_result, table
from newsproof.sdk.client import publish
from schemas.errors import TransientError
from schemas.events import WIRE_NAMES, SignalSynthesized
from schemas.news import News
from streams.sink.sink import Sink

PACKAGES = ("schemas", "agents", "infra", "streams", "evaluation", "newsproof")
ROOT = f"{Path(__file__).resolve().parents[1]}/"
OWN = tuple(f"{ROOT}{package}/" for package in PACKAGES)
FIRST, SECOND = "h09", "h05"
"""Items of the sample. Both take the single pass, which is the default path, and end with a signal."""
WITHIN_S = 120.0
DEFINITION = f"""\
Counted: calls of Python functions in files of {", ".join(PACKAGES)}, including resumed coroutines and generators, in all
threads of one process. This process runs the worker, the publisher and the sink with default settings in offline mode. The
embedded servers run in processes of their own. A change is a call whose file differs from that of the previous call in its
thread. It counts for the package that is entered. Returns do not count.
Start: just before publish, with a ready worker and sink. End: ClickHouse returns the signal's row and the row of the event
that ends the case. first: item {FIRST}, the first of the process, so it includes what is loaded or compiled only once.
second: item {SECOND} after it. idle: no item, for as long as the first one took. Polling also happens during the items and
is not subtracted."""

Call = tuple[int, str]
"""(thread id, file of the called function relative to the project)."""


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of a recording. ``*_by_package``: by top-level package; ``calls_by_file``: most calls first."""

    files: int
    changes: int
    calls: int
    seconds: float
    files_by_package: dict[str, int]
    changes_by_package: dict[str, int]
    calls_by_file: dict[str, int]


def figures(calls: Iterable[Call], *, seconds: float) -> Figures:
    """Count files, calls, and file changes within each thread; a thread's first call is not a change."""
    by_file, changes = Counter[str](), Counter[str]()
    last: dict[int, str] = {}
    for thread, file in calls:
        by_file[file] += 1
        if last.setdefault(thread, file) != file:
            changes[file.partition("/")[0]] += 1
        last[thread] = file
    files = Counter(file.partition("/")[0] for file in by_file)
    return Figures(
        files=len(by_file), changes=changes.total(), calls=by_file.total(), seconds=round(seconds, 2),
        files_by_package={name: files[name] for name in PACKAGES},
        changes_by_package={name: changes[name] for name in PACKAGES}, calls_by_file=dict(by_file.most_common()),
    )  # fmt: skip


class Recorder:
    """Records calls of the project's own files. :meth:`observe` is a profile function for ``sys.setprofile``."""

    def __init__(self) -> None:
        self._calls: list[Call] | None = None

    def observe(self, frame: FrameType, event: str, _argument: Any) -> None:
        """Record a call while a recording runs."""
        path = frame.f_code.co_filename
        if self._calls is not None and event == "call" and path.startswith(OWN):
            self._calls.append((threading.get_ident(), path[len(ROOT) :]))

    async def during(self, work: Awaitable[object]) -> Figures:
        """Return the figures of everything that runs until ``work`` is done."""
        calls: list[Call] = []
        self._calls, began = calls, time.monotonic()
        sys.setprofile(self.observe)
        try:
            await work
        finally:
            sys.setprofile(None)
            self._calls = None
        return figures(calls, seconds=time.monotonic() - began)


async def follow() -> dict[str, Figures]:
    """Run a separate installation; return the figures of the first item, the second item, and an idle period."""
    items = {item.external_id: item for item in sample_news()}
    recorder = Recorder()
    threading.setprofile(recorder.observe)  # the pool's threads start long before the first item
    try:
        async with _installation() as through:
            first = await recorder.during(through(items[FIRST]))
            second = await recorder.during(through(items[SECOND]))
            return {"first": first, "second": second, "idle": await recorder.during(asyncio.sleep(first.seconds))}
    finally:
        threading.setprofile(None)


@asynccontextmanager
async def _installation() -> AsyncIterator[Callable[[News], Coroutine[Any, Any, None]]]:
    """Yield a function that publishes an item and waits for its rows. Settings are the defaults; the environment is
    ignored.
    """
    with TemporaryDirectory(prefix="newsproof-follow-") as directory:
        settings = settings_for(Settings.model_construct(), Path(directory))
        async with servers(settings) as found:
            at = found.applied_to(settings)
            await asyncio.gather(prepare_topics(at), prepare_tables(at))
            async with clickhouse_of(at) as tables:
                sink, parts = Sink(address_of(at), topics_of(at), tables), list[Any]()
                running = [
                    asyncio.create_task(run_worker(at, take_over=True, starting=lambda *both: parts.extend(both))),
                    asyncio.create_task(run_until(asyncio.Event(), (sink.run, sink.stop))),
                ]

                async def ready() -> bool:
                    return bool(parts) and not worker_unready(*parts) and not sink_unready(sink)

                try:
                    await _until(ready, running, "a worker and a sink that are ready")
                    yield lambda item: _through(item, at, running)
                finally:
                    for task in running:
                        task.cancel()
                    await asyncio.gather(*running, return_exceptions=True)


def _through(item: News, at: Settings, running: Sequence[asyncio.Task[None]]) -> Coroutine[Any, Any, None]:
    case, ends = f"case_id = '{item.case_id}'", WIRE_NAMES[SignalSynthesized]
    ended = f"SELECT case_id FROM events WHERE {case} AND event_type = '{ends}'"
    sql = f"SELECT count() FROM signals WHERE {case} AND case_id IN ({ended})"
    url, database = str(at.clickhouse_url), {"database": at.clickhouse_database}
    address, prefix = address_of(at), topics_of(at).prefix

    async def through() -> None:
        await publish([item], kafka=address, prefix=prefix)
        async with httpx.AsyncClient() as http:  # the calls of our own client would be counted

            async def there() -> bool:
                reply = await http.post(url, params=database, content=sql)
                return int(reply.raise_for_status().text) > 0

            await _until(there, running, f"the rows of {item.external_id}")

    return through()


async def _until(look: Callable[[], Awaitable[bool]], running: Sequence[asyncio.Task[None]], what: str) -> None:
    end = time.monotonic() + WITHIN_S
    while not await look():
        if ended := [task for task in running if task.done()]:
            ended[0].result()
        if ended or time.monotonic() > end:
            why = "a service was ended" if ended else f"{WITHIN_S:g} s are over"
            raise TransientError(f"still waiting for {what}, and {why}: look at the log above, then run it again")
        await asyncio.sleep(0.05)


def main(argv: list[str] | None = None) -> int:
    """Print the figures as tables, or with ``--json`` as one line of JSON."""
    parser = argparse.ArgumentParser(prog="python -P -m lab follow", description=__doc__, epilog=DEFINITION)
    parser.add_argument("--json", action="store_true", help="print one line of JSON on standard output")
    as_json = parser.parse_args(argv).json
    configure_logs("WARNING", libraries="CRITICAL")
    found = asyncio.run(follow())
    if as_json:
        json_line({"definition": DEFINITION, **{name: msgspec.to_builtins(one) for name, one in found.items()}})
        return exits.OK
    say_result(DEFINITION)
    for name, one in found.items():
        rows = [(which, one.files_by_package[which], one.changes_by_package[which]) for which in PACKAGES]
        title = f"{name}: {one.files} files, {one.changes:,} changes, {one.calls:,} calls, {one.seconds:g} s"
        table(("package", "files", "changes"), rows, title=title, right=("files", "changes"))
    table(("file", "calls"), found["first"].calls_by_file.items(), title="first, by file", right=("calls",))
    return exits.OK
