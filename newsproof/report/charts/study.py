"""Event study: mean returns around signals, a panel for each group on one scale, with bands where there are enough days."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

import msgspec

from newsproof.report.charts.svg import (
    FAINT,
    INK,
    LINE,
    WIDE,
    Canvas,
    colour,
    drawing,
    element,
    empty,
    shorten,
    text,
    ticks,
    tip,
)

_LEFT, _TOP, _GAP = 48, 8, 16
_HEAD, _HEIGHT, _FOOT = 22, 110, 30


class CurvePoint(msgspec.Struct, frozen=True):
    """Mean of ``events`` returns ``minutes`` from the base, and its band; None: unknown. As shares (0.01 = 1 %)."""

    minutes: int
    mean: float | None
    low: float | None
    high: float | None
    events: int


class Curve(msgspec.Struct, frozen=True):
    """One group, with its number of events."""

    name: str
    events: int
    points: Sequence[CurvePoint]


def study_panels(curves: Sequence[Curve], *, title: str, on: Canvas = WIDE) -> str:
    """Return a panel for each curve, all on one scale. Offsets are equally spaced, whatever the time between them."""
    drawn = [curve for curve in curves if any(point.mean is not None for point in curve.points)]
    if not drawn:
        return empty(title, "No event has such a return.", on)
    top = max(abs(v) for c in drawn for p in c.points for v in (p.mean, p.low, p.high) if v is not None)
    scale = ticks(top, 2)
    across = 1 if on.narrow else 3
    marks = [_panel(curve, n, scale, across, on) for n, curve in enumerate(drawn)]
    rows = -(-len(drawn) // across)
    description = "; ".join(f"{c.name}: {_ends(c)}, {_counted(c, on)}" for c in drawn)
    height = _TOP + rows * (_HEAD + _HEIGHT + _FOOT)
    what = f"Mean return from an hour before the signal to a day after it, by group. {description}"
    return drawing(title, what, height, *marks, on=on)


def _panel(curve: Curve, n: int, scale: Sequence[float], across: int, on: Canvas) -> str:
    wide = (on.width - _LEFT) / across - _GAP
    left, top = _LEFT + n % across * (wide + _GAP), _TOP + n // across * (_HEAD + _HEIGHT + _FOOT)
    zero, half = top + _HEAD + _HEIGHT / 2, _HEIGHT / 2
    last = len(curve.points) - 1

    def x(place: int) -> float:
        return left + place / last * wide

    def y(value: float) -> float:
        return zero - value / scale[-1] * half

    marks = [
        text(shorten(curve.name, 20), left, top + 13),
        text(_counted(curve, on), left + wide, top + 13, anchor="end", fill=FAINT, size=11),
    ]
    for value in sorted({side * mark for mark in scale for side in (-1, 1)}):
        ink = INK if value == 0 else LINE
        marks.append(element("line", x1=left, x2=left + wide, y1=y(value), y2=y(value), stroke=ink, stroke_width=1))
        if n % across == 0:
            marks.append(text(_share(value), left - 6, y(value) + 4, anchor="end", fill=FAINT, size=11))
    for place, point in enumerate(curve.points):
        if place % 5 == 0:
            anchor = "start" if place == 0 else "end" if place == last else "middle"
            marks.append(text(offset(point.minutes), x(place), zero + half + 16, anchor=anchor, fill=FAINT, size=11))
        if point.minutes == 0:
            dashed = {"stroke": LINE, "stroke_dasharray": "3 3"}
            marks.append(element("line", x1=x(place), x2=x(place), y1=zero - half, y2=zero + half, **dashed))
    marks += _line(curve, x, y, on)
    return "".join(marks)


def _line(curve: Curve, x: Callable[[int], float], y: Callable[[float], float], on: Canvas) -> list[str]:
    """Return the band, the line through the means, and a dot with values at each. Unknown points are gaps."""
    marks = []
    for known, run in groupby(enumerate(curve.points), lambda pair: pair[1].mean is not None):
        if known:
            marks += _drawn(curve, list(run), x, y, on)
    return marks


def _drawn(
    curve: Curve,
    run: Sequence[tuple[int, CurvePoint]],
    x: Callable[[int], float],
    y: Callable[[float], float],
    on: Canvas,
) -> list[str]:
    banded = [(x(n), y(p.high), y(p.low)) for n, p in run if p.low is not None and p.high is not None]
    there = [(x(n), y(p.mean), p) for n, p in run if p.mean is not None]
    marks = []
    if banded:
        around = [*((at, high) for at, high, _ in banded), *((at, low) for at, _, low in reversed(banded))]
        path = " ".join(f"{'L' if n else 'M'}{at:.2f} {height:.2f}" for n, (at, height) in enumerate(around))
        marks.append(element("path", d=f"{path} Z", fill=colour(0), fill_opacity=0.22))
    path = " ".join(f"{'L' if n else 'M'}{at:.2f} {height:.2f}" for n, (at, height, _) in enumerate(there))
    marks.append(element("path", d=path, fill="none", stroke=colour(0), stroke_width=1.5))
    for at, height, point in there:
        band = "too few days for a band" if point.low is None else f"{_share(point.low)} to {_share(point.high)}"
        label = (
            f"{curve.name}, {offset(point.minutes)}: {_share(point.mean)} ({band}), {on.counted(point.events, 'event')}"
        )
        marks.append(element("circle", tip(label), cx=at, cy=height, r=2.5, fill=colour(0)))
    return marks


def _ends(curve: Curve) -> str:
    last = [point for point in curve.points if point.mean is not None][-1]
    return f"{_share(last.mean)} at {offset(last.minutes)}"


def _counted(curve: Curve, on: Canvas) -> str:
    banded = any(point.low is not None for point in curve.points)
    return on.counted(curve.events, "event") + ("" if banded else f", {on.say('too few days')}")


def _share(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:+.3g}%" if value else "0"


def offset(minutes: int) -> str:
    """Return an offset as in charts and tables: ``-15 min``, ``0``, ``+90 min``; whole hours as ``+1 h``."""
    if not minutes:
        return "0"
    return f"{minutes:+d} min" if abs(minutes) < 60 or minutes % 60 else f"{minutes // 60:+d} h"
