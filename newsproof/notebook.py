"""For notebooks: runs, outcomes and comparisons as data frames.

    from newsproof.notebook import compare, outcomes, run

    run("live")                       # one row a case
    outcomes("live", horizon_s=3600)  # one row a judged case
    compare("v3", "v4").metrics       # one row a metric

Every function works while an event loop is running, as in Jupyter: it uses its own loop and thread. It uses the running
servers of the data directory, as commands do; if none runs, it starts ClickHouse for the call.
The module is not part of ``evaluation``, because its package ``compare`` has the name of the function.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import Future, wait
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import msgspec

from evaluation.compare.compare_runs import compare_runs
from evaluation.compare.comparison import Comparison
from evaluation.compare.metrics import parse_primary
from evaluation.compare.terms import Scoring
from infra.clickhouse.client import ClickHouse
from infra.clickhouse.parquet import read_table
from newsproof.app.data_access import database
from newsproof.app.invocation import Invocation
from schemas.errors import ConfigError

__all__ = ["Compared", "compare", "outcomes", "run", "sql"]

T = TypeVar("T")
Frames = Literal["pandas", "polars", "arrow"]
"""The library whose frames are returned. pandas and pyarrow come with Newsproof."""
_LOOK_S = 0.5
"""Interval at which a waiting cell looks for an interrupt."""
_STARTS_WITHIN_S = 10.0
"""Maximum wait of an interrupt for a thread that is just starting."""


class Compared:
    """A comparison whose tables are frames: the attributes of ``Comparison``, with each list of records as a frame.

    ``metrics``, ``flips``, ``verdict_flips``, ``differences`` and ``spend`` are frames with one row per record; a
    nested field is a column ``outer.inner``. All other attributes, such as ``verdict`` and ``warnings``, are unchanged.
    """

    def __init__(self, comparison: Comparison, frames: Frames = "pandas") -> None:
        self.comparison = comparison
        self._frames = frames

    def __getattr__(self, name: str) -> Any:
        if name not in Comparison.__struct_fields__:
            raise AttributeError(f"a comparison has no {name!r}: it has {', '.join(Comparison.__struct_fields__)}")
        value = getattr(self.comparison, name)
        kinds = [kind for kind in _kinds_within(name) if isinstance(kind, type) and issubclass(kind, msgspec.Struct)]
        return _frame_of_records(value, kinds[0], self._frames) if kinds and isinstance(value, tuple) else value

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *Comparison.__struct_fields__]

    def __repr__(self) -> str:
        return f"Compared({self.comparison.a!r}, {self.comparison.b!r}): {self.comparison.verdict}"


def compare(
    a: str,
    b: str,
    *,
    data_dir: Path | str | None = None,
    frames: Frames = "pandas",
    primary: str | None = None,
    cap: float | None = None,
    trade_cost: float = 0.002,
    seed: int = 0,
    **options: Any,
) -> Compared:
    """Compare two runs, as ``newsproof backtest compare`` does; docs/verdict.md explains the metrics.

    ``cap`` bounds the return of one case (None: the setting ``PROFIT_CAP``). ``trade_cost`` is the cost of one trade,
    in and out together. Both are shares. ``options`` are those of ``evaluation.compare.compare_runs.compare_runs``,
    such as ``differences`` and ``latency_s``.

    Raises:
        ConfigError: an unknown run, nothing to compare, or the library of ``frames`` is missing.
    """
    invocation = _invocation(data_dir)
    cap = invocation.settings().profit_cap if cap is None else cap
    how = Scoring(primary=parse_primary(primary) if primary else "", cap=cap, trade_cost=trade_cost, seed=seed)
    _library(frames)

    async def work() -> Comparison:
        async with database(invocation, admin=True) as client:
            return await compare_runs(client, a, b, how=how, **options)

    return Compared(_in_a_loop_of_its_own(work()), frames)


def run(run_id: str = "live", *, data_dir: Path | str | None = None, frames: Frames = "pandas") -> Any:
    """Return the results of a run's cases: the rows of ``v_run_cases``, one per case and repeat.

    ``live`` means the live judgements. This does not start a backtest; ``newsproof backtest run`` does.

    Raises:
        ConfigError: there is no such run, or the library of ``frames`` is missing.
    """
    asked = "SELECT * FROM v_run_cases WHERE run_id = {run:String} ORDER BY received_at, case_id, repeat"
    return _rows_of_run(asked, {"run": run_id}, data_dir, frames)


def outcomes(
    run_id: str = "live",
    *,
    horizon_s: int | None = None,
    data_dir: Path | str | None = None,
    frames: Frames = "pandas",
) -> Any:
    """Return the outcomes of a run's signals: the rows of ``v_judged_outcomes``, one per signal, repeat and horizon.

    Rows that do not count are included; ``standing`` says why. A hit is about the price, not about the truth.

    Raises:
        ConfigError: there is no such run, nothing was judged at ``horizon_s``, or the library of ``frames`` is missing.
    """
    of_horizon = "" if horizon_s is None else " AND horizon_s = {horizon:UInt32}"
    asked = (
        f"SELECT * FROM v_judged_outcomes WHERE run_id = {{run:String}}{of_horizon} ORDER BY case_id, repeat, horizon_s"
    )
    return _rows_of_run(asked, {"run": run_id, "horizon": horizon_s or 0}, data_dir, frames)


def sql(
    query: str,
    parameters: Mapping[str, Any] | None = None,
    *,
    data_dir: Path | str | None = None,
    frames: Frames = "pandas",
) -> Any:
    """Return the result of a query, run as the read-only analyst; docs/sql.md has ten examples.

    ClickHouse binds ``parameters`` to ``{name:Type}``.

    Raises:
        ConfigError: the library of ``frames`` is missing.
        PermanentError: ClickHouse refuses the query.
    """
    _library(frames)

    async def work() -> Any:
        async with database(_invocation(data_dir), admin=False) as client:
            return await read_table(client, query, parameters)

    return _frame_of_arrow(_in_a_loop_of_its_own(work()), frames)


def _rows_of_run(asked: str, parameters: Mapping[str, Any], data_dir: Path | str | None, frames: Frames) -> Any:
    _library(frames)

    async def work() -> Any:
        async with database(_invocation(data_dir), admin=True) as client:
            table = await read_table(client, asked, parameters)
            return table if table.num_rows else await _explain(client, parameters)

    return _frame_of_arrow(_in_a_loop_of_its_own(work()), frames)


async def _explain(client: ClickHouse, parameters: Mapping[str, Any]) -> Any:
    asked = "SELECT DISTINCT run_id FROM v_run_cases ORDER BY run_id != 'live', run_id"
    known = [str(row[0]) for row in (await client.query(asked)).rows]
    if (run_id := parameters["run"]) in known:
        raise ConfigError(f"run {run_id!r} has no such rows: ask for another horizon_s, or leave it out")
    raise ConfigError(f"there is no run {run_id!r}: there are {', '.join(known) or 'none with cases yet'}")


def _invocation(data_dir: Path | str | None) -> Invocation:
    invocation = Invocation()
    invocation.data_dir = None if data_dir is None else Path(data_dir)
    return invocation


def _library(frames: str) -> Any:
    """Import the library.

    Raises:
        ConfigError: it is missing or unknown.
    """
    if frames not in get_args(Frames):
        raise ConfigError(f"frames={frames!r}: say {', '.join(get_args(Frames))}")
    name = {"arrow": "pyarrow"}.get(frames, frames)
    try:
        return __import__(name)
    except ImportError as exc:
        raise ConfigError(
            f"frames={frames!r} needs {name}, which is not installed here: pip install {name}, or say frames='arrow'"
        ) from exc


def _frame_of_arrow(table: Any, frames: Frames) -> Any:
    if frames == "pandas":
        return table.to_pandas()
    return _library(frames).from_arrow(table) if frames == "polars" else table


def _kinds_within(field: str) -> tuple[Any, ...]:
    from typing import get_type_hints

    return get_args(get_type_hints(Comparison)[field])


def _frame_of_records(records: Sequence[Any], kind: type[msgspec.Struct], frames: Frames) -> Any:
    rows = [dict(_flat(msgspec.to_builtins(record, builtin_types=(Decimal,)))) for record in records]
    names = list(dict.fromkeys(name for row in rows for name in row)) or list(kind.__struct_fields__)
    columns = {name: [row.get(name) for row in rows] for name in names}
    library = _library(frames)
    return library.table(columns) if frames == "arrow" else library.DataFrame(columns)


def _flat(record: Mapping[str, Any], within: str = "") -> list[tuple[str, Any]]:
    flat: list[tuple[str, Any]] = []
    for name, value in record.items():
        flat += _flat(value, f"{within}{name}.") if isinstance(value, dict) else [(f"{within}{name}", value)]
    return flat


def _in_a_loop_of_its_own(work: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine in a thread, because a running event loop, such as Jupyter's, cannot wait for another one.

    An interrupt of the cell cancels the work, so that servers it started end, and is raised once that is done.
    """
    done: Future[T] = Future()
    running: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = Future()

    async def main() -> T:
        task = asyncio.current_task()
        assert task is not None
        running.set_result((asyncio.get_running_loop(), task))
        return await work

    def target() -> None:
        try:
            done.set_result(asyncio.run(main()))
        except BaseException as exc:
            done.set_exception(exc)

    try:
        threading.Thread(target=target, name="newsproof-notebook", daemon=True).start()
        while not wait([done], _LOOK_S).done:
            pass  # an interrupt that wakes another thread, or comes just before the wait, is seen now
        return done.result()
    except KeyboardInterrupt:
        # The interrupt may come while the thread starts. A closed loop has nothing left to cancel.
        with contextlib.suppress(TimeoutError, RuntimeError):
            loop, task = running.result(_STARTS_WITHIN_S)
            loop.call_soon_threadsafe(task.cancel)
            wait([done])
        raise
