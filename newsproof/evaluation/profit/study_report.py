"""``newsproof backtest study``: the event study of a run's signals by stored bars, printed as tables or JSON."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from infra.clickhouse.client import ClickHouse
from infra.market.outcomes.markets import DOLLARS
from newsproof.app.database import database
from newsproof.app.invocation import Invocation, json_line, say_result, table
from newsproof.evaluation.profit.reading import RunSignal, StoredPrices, read_signals
from newsproof.evaluation.profit.report import counted
from newsproof.evaluation.profit.study import (
    BENCHMARK,
    BETA_DAYS,
    OFFSETS_MIN,
    EventPath,
    Group,
    Hourly,
    LeftOut,
    Point,
    Study,
    StudyEvent,
    event_path,
    hourly,
    study_of,
)
from newsproof.evaluation.statistics import MIN_BLOCKS
from newsproof.report.run_name import run_name
from schemas.prices import JudgedCase, PriceSeries

DIMENSIONS = ("verdict", "event_type", "source")
SHOWN_MIN = (-60, -15, 5, 60, 240, 1440)
"""Offsets of a printed table; --json has them all."""
_SIDES = {"long": 1, "short": -1}
_BEFORE_MS = (BETA_DAYS + 1) * 86_400_000
_AFTER_MS = round((max(OFFSETS_MIN) * 1.1 + 30) * 60_000)


class StudyReport(msgspec.Struct, frozen=True, kw_only=True):
    """The study of a run. ``directed``: returns are in the direction of each claim. ``on_synthetic_prices``: events whose base is invented."""

    run_id: str
    directed: bool
    study: Study
    on_synthetic_prices: int
    warnings: tuple[str, ...]


async def show_study(
    invocation: Invocation, run_id: str, *, by: Sequence[str], directed: bool, repeat: int, seed: int, as_json: bool
) -> None:
    """Print the study.

    Raises:
        ConfigError: no such run, or no prices.
    """
    async with database(invocation, admin=True) as tables:
        report = await study_report(tables, run_id, by=by, directed=directed, repeat=repeat, seed=seed)
        name = await run_name(tables, run_id)
    if as_json:
        json_line(report)
    else:
        _print(report, name)


async def study_report(
    tables: ClickHouse,
    run_id: str,
    *,
    by: Sequence[str] = DIMENSIONS,
    directed: bool = True,
    repeat: int = 0,
    seed: int = 0,
) -> StudyReport:
    """Study every signal of a run (``live``: the recorded ones), whatever its action, by the bars of all imports that stand.

    Raises:
        ConfigError: there is no such run or repeat, or no prices.
    """
    prices = await StoredPrices.opened(tables)
    signals = (await read_signals(tables, run_id, repeat)).signals
    found: list[EventPath | LeftOut] = []
    synthetic = 0
    around = [one.from_ms for one in signals] or [0]
    of_benchmark = tuple(f"{BENCHMARK}/{quote}" for quote in DOLLARS)
    benchmarks = await prices.read(of_benchmark, min(around) - _BEFORE_MS, max(around) + _AFTER_MS)
    async for markets, group in prices.by_market(signals, before_ms=_BEFORE_MS, after_ms=_AFTER_MS):
        of_pair: dict[tuple[str, ...], Hourly | None] = {}
        for signal in group:
            series, benchmark = markets.of(signal.judged), benchmarks.of(_on_benchmark(signal))
            pair = (*_named(series), *_named(benchmark))
            if pair not in of_pair:
                of_pair[pair] = hourly(series, benchmark)
            one = event_path(_event(signal), series, benchmark, of_pair[pair], directed=directed)
            found.append(one)
            if isinstance(one, EventPath) and series is not None and series.imports:
                synthetic += series.imports[one.base] in prices.synthetic
    study = study_of(found, dimensions=by, seed=seed)
    return StudyReport(
        run_id=run_id,
        directed=directed,
        study=study,
        on_synthetic_prices=synthetic,
        warnings=tuple(_warnings(study, synthetic)),
    )


def _named(series: PriceSeries | None) -> tuple[str, str]:
    return ("", "") if series is None else (series.symbol, series.venue)


def _on_benchmark(signal: RunSignal) -> JudgedCase:
    return JudgedCase(case_id=signal.case_id, asset=BENCHMARK, symbol="", venue="", knowable_at_ms=signal.from_ms)


def _event(signal: RunSignal) -> StudyEvent:
    groups = {"verdict": signal.verdict, "event_type": signal.event_type, "source": signal.source}
    return StudyEvent(side=_SIDES.get(signal.direction, 0), at_ms=signal.from_ms, groups=groups)


def _warnings(study: Study, synthetic: int) -> list[str]:
    said = []
    if synthetic:
        said.append(
            f"{counted(synthetic, 'event')} on synthetic prices, which know nothing of the news: they show that it works"
        )
    days = study.groups[0].days if study.groups else 0
    if 0 < days < MIN_BLOCKS:
        said.append(f"{counted(days, 'day')}: too few days for bands, which need {MIN_BLOCKS}")
    if study.measured and study.raw_only.get("no_beta", 0) == study.measured:
        said.append(f"no abnormal returns: no event has bars of its market and of {BENCHMARK} on the days before it")
    return said


def _print(report: StudyReport, name: str) -> None:
    study = report.study
    way = "in the direction of each claim" if report.directed else "of the asset, whatever the claim"
    say_result(
        f"Event study of {name}: {counted(study.events, 'signal')}, {study.measured:,} measured; returns {way}, "
        "from the first open after the signal"
    )
    for what, counts in (("Left out", study.left_out), ("Raw return alone", study.raw_only)):
        if counts:
            say_result(f"{what}: {', '.join(f'{reason} {n:,}' for reason, n in counts.items())}")
    columns = ("", "group", "events", "days", *map(_offset, SHOWN_MIN))
    abnormal = [row for group in study.groups if (row := _abnormal_row(group))]
    if abnormal:
        title = f"Abnormal: return less beta times that of {BENCHMARK}, mean and 95 % band"
        table(columns, abnormal, title=title, right=columns[2:])
    if study.groups:
        table(columns, map(_raw_row, study.groups), title="Raw: return, mean and 95 % band", right=columns[2:])
    for warning in report.warnings:
        say_result(f"! {warning}")


def _offset(minutes: int) -> str:
    return f"{minutes:+d} min" if abs(minutes) <= 60 else f"{minutes // 60:+d} h"


def _raw_row(group: Group) -> tuple[str, ...]:
    points = _shown(group)
    cells = (_cell(p.raw, p.raw_low, p.raw_high, p.events, group.events) for p in points)
    return (group.dimension, group.name or "–", f"{group.events:,}", f"{group.days:,}", *cells)


def _abnormal_row(group: Group) -> tuple[str, ...] | None:
    base = next(point for point in group.points if point.minutes == 0)
    n = base.abnormal_events
    if not n:
        return None
    cells = (_cell(p.abnormal, p.abnormal_low, p.abnormal_high, p.abnormal_events, n) for p in _shown(group))
    return (group.dimension, group.name or "–", f"{n:,}", f"{base.abnormal_blocks:,}", *cells)


def _shown(group: Group) -> list[Point]:
    return [point for point in group.points if point.minutes in SHOWN_MIN]


def _cell(mean: float | None, low: float | None, high: float | None, events: int, of: int) -> str:
    """Return a mean above its band; with how many events it is of where some have no price there."""
    if mean is None:
        return "–"
    band = "too few days" if low is None or high is None else f"{low:+.2%} … {high:+.2%}"
    return f"{mean:+.2%}{'' if events == of else f' ({events:,})'}\n{band}"
