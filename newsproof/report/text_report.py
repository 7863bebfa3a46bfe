"""The standard report in a terminal: its metrics as tables, with a small chart beside each row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import isfinite

from newsproof.app.sheet import UNWRAPPED, Sheet, advise, say_result, table
from newsproof.report.data import VERDICTS, Report, by_day, horizon, usd
from newsproof.report.sheets import sheet_of


def print_report_of(report: Report) -> None:
    say_result(f"Newsproof report: {report.name}. {report.modes}\n")
    if report.is_empty:
        advise("ClickHouse has no data of this run yet. `newsproof backtest list` lists the runs.")
        return
    _signals(report)
    _deltas(report)
    _reliability(report)
    _cost(report)
    _latency(report)
    _print(sheet_of(report, "trust"), "v_trust_checks")


def _print(sheet: Sheet, view: str) -> None:
    """Print a sheet and where its figures come from."""
    sheet._replace(title=f"{sheet.title} ({view})").print(piped=UNWRAPPED)


def _signals(report: Report) -> None:
    counts = {name: sum(row[name] for row in report["signals"]) for name in (*VERDICTS, "without_verdict")}
    top, days = max(counts.values(), default=0), report["signals"][-31:]
    table(
        ("verdict", "signals", "", "by day"),
        [
            (name.replace("_", " "), count, bar(count, top), sparkline([row[name] for row in days]))
            for name, count in counts.items()
            if count
        ],
        title="Signals by verdict (v_judgements)",
        right=("signals",),
    )
    if report["unchecked"]:
        reasons = ", ".join(
            f"{row['unchecked_reason'] or 'schema 1'} {row['signals']:,}" for row in report["unchecked"]
        )
        say_result(f"Not verified, and not counted in the change of confidence: {reasons}\n")


def _cost(report: Report) -> None:
    days = by_day(report)
    sums = [sum(parts.values()) for parts in days.values()]
    unpriced = {day: sum(r["unpriced"] for r in report["spend"] if r["day"] == day) for day in days}
    calls = {day: sum(r["calls"] for r in report["spend"] if r["day"] == day) for day in days}
    rows = [
        (day, calls[day], usd(total), unpriced[day], bar(total, max(sums)))
        for day, total in zip(days, sums, strict=True)
    ]
    columns = ("day (UTC)", "calls", "cost USD", "of unknown price", "")
    table(columns, rows[-31:], title="Cost by day (v_calls)", right=columns[1:4])
    steps: dict[str, float] = {}
    for parts in days.values():
        for step, cost in parts.items():
            steps[step] = steps.get(step, 0.0) + cost
    over_days = {step: [parts.get(step, 0.0) for parts in days.values()][-31:] for step in steps}
    top = max(steps.values(), default=0.0)
    table(
        ("step", "cost USD", "", "by day"),
        [
            (step, usd(cost), bar(cost, top), sparkline(over_days[step]))
            for step, cost in sorted(steps.items(), key=lambda s: (-s[1], s[0]))
        ],
        title="Cost by step (v_calls)",
        right=("cost USD",),
    )
    for row in report["cost_per_signal"]:
        say_result(
            f"{row['signals']} signals, {usd(row['cost_per_signal_usd'])} USD each; {row['unpriced_calls']} of {row['calls']} calls have no known price.\n"
        )


def _latency(report: Report) -> None:
    known = [p95 for r in report["latency"] if (p95 := r["p95_ms"]) is not None and isfinite(p95)]
    top = max(known, default=0.0)
    latency = sheet_of(report, "latency")
    _print(latency.with_column("p95", (bar(r["p95_ms"], top) for r in report["latency"])), "events")
    _print(sheet_of(report, "to_signal"), "v_judgements")


def _deltas(report: Report) -> None:
    counts = [r["signals"] for r in report["deltas"]]
    bars = (bar(count, max(counts)) for count in counts)
    _print(sheet_of(report, "deltas").with_column("", bars), "v_judgements")


def _reliability(report: Report) -> None:
    if report.without_outcomes:
        advise(f"Reliability: {report.without_outcomes}\n")
        return
    _print(sheet_of(report, "precision"), "v_held_outcomes")
    for figures, bins in (("calibration", "reliability"), ("calibrated", "calibrated_bins")):
        if not report[figures]:
            continue
        sheet, cases, curves = sheet_of(report, figures), [], []
        for at, *_ in sheet.rows:
            tenths = {round(r["confidence_from"] * 10): r for r in report[bins] if horizon(r["horizon_s"]) == at}
            cases.append((at, *(tenths[n]["cases"] if n in tenths else "" for n in range(10))))
            curves.append(sparkline([tenths[n]["hit_rate"] if n in tenths else None for n in range(10)]))
        _print(sheet.with_column("hits by tenth", curves), "v_held_outcomes")
        columns = ("horizon", *(f"0.{n}" for n in range(10)))
        table(columns, cases, title="Cases by tenth, from", right=columns[1:])
    if report.synthetic:
        say_result(f"{report.synthetic}\n")


_HEIGHTS = "▁▂▃▄▅▆▇█"
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def sparkline(values: Sequence[float | None]) -> str:
    """Return one character per value, scaled from 0 to the largest; a space for None and non-finite values."""
    known = [v for v in values if v is not None and math.isfinite(v)]
    top = max(known, default=0.0)
    return "".join(
        " "
        if v is None or not math.isfinite(v)
        else _HEIGHTS[0]
        if top <= 0
        else _HEIGHTS[min(7, max(0, math.ceil(v / top * 8) - 1))]
        for v in values
    )


def bar(value: float | None, top: float, *, width: int = 24) -> str:
    """Return a bar of at most ``width`` characters, in steps of 1/8; "" for None, non-finite values and values ≤ 0."""
    if value is None or not (math.isfinite(value) and math.isfinite(top)) or top <= 0 or value <= 0:
        return ""
    eighths = max(1, round(min(value / top, 1.0) * width * 8))
    return _EIGHTHS[8] * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")
