"""The event study of a run's signals by stored bars: for ``newsproof backtest study``, the report and the page."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Literal, get_args
from xml.sax.saxutils import escape

import msgspec

from evaluation.prices.confidence_study import Measurement
from evaluation.prices.run_signals import RunSignal, StoredPrices, live_signals, read_signals
from evaluation.prices.study import (
    BENCHMARK,
    BETA_DAYS,
    OFFSETS_MIN,
    EventPath,
    Group,
    LeftOut,
    Point,
    Study,
    StudyEvent,
    event_paths,
    study_of,
)
from evaluation.prices.trades import LATENCY_S
from evaluation.statistics.blocks import MIN_BLOCKS
from infra.clickhouse.client import ClickHouse
from infra.market.outcomes.markets import DOLLARS
from newsproof.app.sheet import Sheet
from newsproof.report.charts import WIDE, Canvas, Curve, CurvePoint, study_panels
from newsproof.report.charts.study import offset
from newsproof.report.html_report import figure, folded
from newsproof.report.period import Period
from schemas.errors import ConfigError
from schemas.prices import JudgedCase, PriceSeries
from schemas.printable import counted

Dimension = Literal["verdict", "event_type", "source"]
DIMENSIONS: tuple[str, ...] = get_args(Dimension)
Returns = Literal["abnormal", "raw"]
SHOWN_MIN = (-60, -15, 5, 60, 240, 1440)
"""Offsets of a printed table; --json has them all."""
MOST_GROUPS = 8
"""Groups that a picture holds; the command has them all."""
TITLES: dict[Returns, str] = {
    "abnormal": f"Abnormal: return less beta times that of {BENCHMARK}, mean and 95 % band",
    "raw": "Raw: return, mean and 95 % band",
}
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


async def study_report(
    tables: ClickHouse,
    run_id: str,
    *,
    by: Sequence[str] = DIMENSIONS,
    directed: bool = True,
    repeat: int = 0,
    seed: int = 0,
    most: int | None = None,
    period: Period | None = None,
) -> StudyReport:
    """Study every signal of a run (``live``: the recorded ones), whatever its action, by the bars of all imports that stand.

    ``most``: so many groups of each dimension at most, the largest. ``period``: of the live run, those that were emitted in it.

    Raises:
        ConfigError: there is no such run or repeat, or no prices.
    """
    prices = await StoredPrices.opened(tables)
    if period is None:
        signals = (await read_signals(tables, run_id, repeat)).signals
    else:
        signals = await live_signals(tables, period)
    all_paths: list[EventPath | LeftOut] = []
    synthetic = 0
    around = [run_signal.from_ms for run_signal in signals] or [0]
    of_benchmark = tuple(f"{BENCHMARK}/{quote}" for quote in DOLLARS)
    benchmarks = await prices.read(of_benchmark, min(around) - _BEFORE_MS, max(around) + _AFTER_MS)
    async for markets, group in prices.by_market(signals, before_ms=_BEFORE_MS, after_ms=_AFTER_MS):
        of_pair: dict[tuple[str, ...], tuple[PriceSeries | None, PriceSeries | None, list[StudyEvent]]] = {}
        for signal in group:
            series, benchmark = markets.of(signal.judged), benchmarks.of(_on_benchmark(signal))
            of_pair.setdefault((*_named(series), *_named(benchmark)), (series, benchmark, []))[2].append(_event(signal))
        for series, benchmark, events in of_pair.values():
            paths = event_paths(events, series, benchmark, directed=directed, within_s=prices.within_s)
            all_paths += paths
            if series is not None and series.imports:
                synthetic += sum(series.imports[p.base] in prices.synthetic for p in paths if isinstance(p, EventPath))
    # In a thread, for a page is served meanwhile.
    study = await asyncio.to_thread(study_of, all_paths, dimensions=by, seed=seed, most=most, directed=directed)
    return StudyReport(
        run_id=run_id,
        directed=directed,
        study=study,
        on_synthetic_prices=synthetic,
        warnings=tuple(_warnings(study, synthetic)),
    )


async def study_or_why_not(tables: ClickHouse, run_id: str, by: Sequence[Dimension]) -> StudyReport | str:
    """Return the study of the largest groups, or a sentence on why there is none: no such run, or no prices yet."""
    try:
        return await study_report(tables, run_id, by=by, most=MOST_GROUPS)
    except ConfigError as exc:
        return str(exc)


def _named(series: PriceSeries | None) -> tuple[str, str]:
    return ("", "") if series is None else (series.symbol, series.venue)


def _on_benchmark(signal: RunSignal) -> JudgedCase:
    return JudgedCase(case_id=signal.case_id, asset=BENCHMARK, symbol="", venue="", knowable_at_ms=signal.from_ms)


def _event(signal: RunSignal) -> StudyEvent:
    groups = {"verdict": signal.verdict, "event_type": signal.event_type, "source": signal.source}
    at_ms = signal.from_ms + round(LATENCY_S * 1000)
    side = _SIDES.get(signal.direction, 0)
    return StudyEvent(side=side, at_ms=at_ms, groups=groups, confidence=signal.confidence)


def _warnings(study: Study, synthetic: int) -> list[str]:
    warnings = []
    if synthetic:
        warnings.append(
            f"{counted(synthetic, 'event')} on synthetic prices, which do not depend on the news: they only show that the computation works"
        )
    days = study.groups[0].days if study.groups else 0
    if 0 < days < MIN_BLOCKS:
        warnings.append(f"{counted(days, 'day')}: too few days for bands, which need {MIN_BLOCKS}")
    if study.measured and study.raw_only.get("no_beta", 0) == study.measured:
        warnings.append(
            f"no abnormal returns: no event has bars of its market and of {BENCHMARK} over the days before it"
        )
    return warnings


def counts_in_words(report: StudyReport, name: str = "") -> list[str]:
    """Return sentences on how many signals of the run (by ``name``, else its id) were measured, and why others were not."""
    study = report.study
    way = "in the direction of each claim" if report.directed else "of the asset, whatever the claim"
    sentences = [
        f"Event study of {name or report.run_id}: {counted(study.events, 'signal')}, {study.measured:,} measured; returns {way}, "
        "from the entry"
    ]
    for what, counts in (("Not measured", study.left_out), ("Raw return only", study.raw_only)):
        if counts:
            sentences.append(f"{what}: {', '.join(f'{reason} {n:,}' for reason, n in counts.items())}")
    if study.smaller_groups:
        sentences.append(
            f"{counted(study.smaller_groups, 'smaller group')} not shown: newsproof backtest study {report.run_id}"
        )
    return sentences


GROUP_COLUMNS = ("", "group", "events", "days", *map(offset, SHOWN_MIN))


def study_sheets(study: Study, returns: Returns) -> list[Sheet]:
    """Return the sheets of these returns: by group, and how far confidence tells of them. Empty: no group has any."""
    rows = [_row(group, returns) for group in study.groups if events_of(group, returns)]
    return (
        [Sheet(GROUP_COLUMNS, rows, TITLES[returns], GROUP_COLUMNS[2:]), *_confidence_sheets(study, returns)]
        if rows
        else []
    )


def _confidence_sheets(study: Study, returns: Returns) -> Iterator[Sheet]:
    by_confidence = study.by_confidence if returns == "raw" else study.abnormal_by_confidence
    if not by_confidence.quantiles:
        return
    columns = ("after", "events", "blocks", "coefficient", "95 % interval")
    title = f"Information coefficient: rank correlation of signed confidence with the {returns} return"
    decay = [
        (offset(coefficient.minutes), f"{coefficient.events:,}", f"{coefficient.blocks:,}", *_coefficient(coefficient))
        for coefficient in by_confidence.coefficients
    ]
    yield Sheet(columns, decay, title, columns[1:])
    shown = ("confidence", "events", *(offset(minutes) for minutes in SHOWN_MIN if minutes > 0))
    rows = [
        (f"{quantile.least:.2f} … {quantile.most:.2f}", f"{quantile.events:,}",
         *(_cell(m.value, m.low, m.high, m.events, quantile.events) for m in quantile.returns if m.minutes in SHOWN_MIN))
        for quantile in by_confidence.quantiles
    ]  # fmt: skip
    yield Sheet(shown, rows, f"By confidence: {returns} return in the claim's direction", shown[1:])


def _coefficient(measurement: Measurement) -> tuple[str, str]:
    if measurement.value is None:
        return "–", "–"
    band = (
        "too few days"
        if measurement.low is None or measurement.high is None
        else f"{measurement.low:+.3f} … {measurement.high:+.3f}"
    )
    return f"{measurement.value:+.3f}", band


POINT_COLUMNS = ("dimension", "group", "group_events", "group_days", *Point.__struct_fields__)


def points_of(study: Study) -> Iterator[dict[str, object]]:
    """Yield every point of every group as a row of ``POINT_COLUMNS``."""
    for group in study.groups:
        of = (group.dimension, group.name, group.events, group.days)
        for point in group.points:
            yield dict(zip(POINT_COLUMNS, (*of, *msgspec.structs.astuple(point)), strict=True))


def events_of(group: Group, returns: Returns) -> int:
    """Return how many events of a group have these returns."""
    return group.events if returns == "raw" else _base(group).abnormal_events


def band_of(point: Point, returns: Returns) -> tuple[float | None, float | None, float | None, int]:
    """Return the mean, both ends of its band and the number of events."""
    if returns == "raw":
        return point.raw, point.raw_low, point.raw_high, point.events
    return point.abnormal, point.abnormal_low, point.abnormal_high, point.abnormal_events


def _row(group: Group, returns: Returns) -> tuple[str, ...]:
    events, days = events_of(group, returns), group.days if returns == "raw" else _base(group).abnormal_blocks
    cells = (_cell(*band_of(point, returns), events) for point in _shown(group))
    return (group.dimension, group.name or "–", f"{events:,}", f"{days:,}", *cells)


def _base(group: Group) -> Point:
    return next(point for point in group.points if point.minutes == 0)


def _shown(group: Group) -> list[Point]:
    return [point for point in group.points if point.minutes in SHOWN_MIN]


def _cell(mean: float | None, low: float | None, high: float | None, events: int, of: int) -> str:
    """Return a mean above its band; with how many events it is of where some have no price there."""
    if mean is None:
        return "–"
    band = "too few days" if low is None or high is None else f"{low:+.2%} … {high:+.2%}"
    return f"{mean:+.2%}{'' if events == of else f' ({events:,})'}\n{band}"


def drawn_study(report: StudyReport, returns: Returns, on: Canvas = WIDE) -> str:
    """Return the study as SVG, a panel for each group."""
    curves = [
        Curve(
            _name(group, on),
            events_of(group, returns),
            [CurvePoint(point.minutes, *band_of(point, returns)) for point in group.points],
        )
        for group in report.study.groups
    ]
    return study_panels(curves, title=f"Mean {returns} return around the signal", on=on)


def _name(group: Group, on: Canvas) -> str:
    if group.dimension == "all":
        return on.say("all signals")
    return group.name if group.dimension == "source" else on.say(group.name) or "–"


async def study_section(tables: ClickHouse, run_id: str) -> str:
    """Return the study of a run by verdict as a section of HTML, or a section that says why there is none."""
    report = await study_or_why_not(tables, run_id, ("verdict",))
    heading = "How prices moved around the signals"
    if isinstance(report, str):
        return f"<section><h2>{heading}</h2><p>{escape(report)}</p></section>"
    drawn = []
    for returns in TITLES:
        for number, sheet in enumerate(study_sheets(report.study, returns)):
            drawing = (
                f"<h3>{escape(sheet.title)}</h3>{figure(partial(drawn_study, report, returns))}" if not number else ""
            )
            drawn.append(f"{drawing}{folded(sheet)}")
    paragraphs = "".join(f"<p>{escape(sentence)}</p>" for sentence in counts_in_words(report))
    notes = "".join(f'<p class="note">{escape(warning)}</p>' for warning in report.warnings)
    return f"<section><h2>{heading}</h2>{paragraphs}{notes}{''.join(drawn)}</section>"
