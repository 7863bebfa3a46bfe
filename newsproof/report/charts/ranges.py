"""Ranges, one row per name: percentiles of durations on a logarithmic axis, and shares with their intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from newsproof.report.charts.svg import FAINT, LINE, WIDE, Canvas, colour, drawing, element, empty, shorten, text, tip

_LEFT, _TOP, _ROW = 130, 30, 24


class Percentiles(msgspec.Struct, frozen=True):
    """Median, 95th and 99th percentile in ms over ``count`` values."""

    name: str
    p50: float
    p95: float
    p99: float
    count: int


def percentile_ranges(rows: Sequence[Percentiles], *, title: str, on: Canvas = WIDE) -> str:
    """Return a line for each row, from p50 over p95 to p99. Rows with a value ≤ 0 or non-finite are skipped."""
    drawn = [r for r in rows if all(math.isfinite(v) and v > 0 for v in (r.p50, r.p95, r.p99))]
    if not drawn:
        return empty(title, "There is no data yet: no step has a result.", on)
    low = math.floor(math.log10(min(r.p50 for r in drawn)))
    high = max(math.ceil(math.log10(max(r.p99 for r in drawn))), low + 1)

    def across(ms: float) -> float:
        return _LEFT + (math.log10(ms) - low) / (high - low) * (on.width - _LEFT - 30)

    bottom = _TOP + _ROW * len(drawn)
    marks = []
    for power in range(low, high + 1):
        x = across(10.0**power)
        marks.append(element("line", x1=x, x2=x, y1=_TOP - 10, y2=bottom, stroke=LINE, stroke_width=1))
        if (power - low) % (2 if on.narrow else 1):
            continue
        marks.append(text(_in_words(10.0**power), x, _TOP - 16, anchor="middle", fill=FAINT, size=11))
    for n, row in enumerate(drawn):
        y = _TOP + _ROW * n + 8
        label = f"{on.say(row.name)}: p50 {_in_words(row.p50)}, p95 {_in_words(row.p95)}, p99 {_in_words(row.p99)}, {row.count} results"
        line = element("line", x1=across(row.p50), x2=across(row.p99), y1=y, y2=y, stroke=colour(0), stroke_width=3)
        dots = "".join(
            element("circle", cx=across(value), cy=y, r=size, fill=colour(index))
            for value, size, index in ((row.p50, 6, 0), (row.p95, 5, 1), (row.p99, 4, 5))
        )
        marks.append(element("g", tip(label), line, dots))
        marks.append(text(shorten(on.say(row.name), 18), _LEFT - 12, y + 4, anchor="end"))
    marks += _key(bottom + 18)
    description = "; ".join(
        f"{on.say(r.name)} {_in_words(r.p50)}, {_in_words(r.p95)}, {_in_words(r.p99)}" for r in drawn
    )
    return drawing(title, f"p50, p95 and p99 of each, on a logarithmic axis: {description}", bottom + 30, *marks, on=on)


def _key(y: float) -> list[str]:
    marks = []
    for n, (name, index) in enumerate((("p50", 0), ("p95", 1), ("p99", 5))):
        x = _LEFT + n * 70
        marks += [element("circle", cx=x, cy=y - 4, r=5, fill=colour(index)), text(name, x + 10, y, size=11)]
    return marks


def _in_words(ms: float) -> str:
    return f"{ms / 1000:,.3g} s" if ms >= 1000 else f"{ms:,.3g} ms"


_SHARE_TOP, _HEAD, _SHARE_ROW, _FOOT, _GAP = 8, 24, 38, 26, 32


class Share(msgspec.Struct, frozen=True):
    """``hits`` of ``count`` cases, and the 95 % interval of their share; None: too few days for one."""

    name: str
    hits: int
    count: int
    interval: tuple[float, float] | None


def share_ranges(columns: Sequence[tuple[str, Sequence[Share]]], *, title: str, on: Canvas = WIDE) -> str:
    """Return a line for each share, from the lower to the upper end of its interval, beside one half (dashed).

    ``columns``: headings with their rows. A share without an interval is counted but not drawn.
    """
    drawn = [(heading, rows) for heading, rows in columns if rows]
    if not drawn:
        return empty(title, "There are no outcomes yet.", on)
    across = 1 if on.narrow else 2
    wide = (on.width - _GAP * (across - 1)) / across - 24
    heights = [0.0] * across
    marks = []
    for n, (heading, rows) in enumerate(drawn):
        left, top = 12 + n % across * (wide + 24 + _GAP), _SHARE_TOP + heights[n % across]
        marks.append(_column(heading, rows, left, top, wide, on))
        heights[n % across] += _HEAD + _SHARE_ROW * len(rows) + _FOOT
    description = "; ".join(f"{row.name}: {_figures(row, on)}" for _, rows in drawn for row in rows)
    return drawing(title, f"Shares with their 95 % intervals. {description}", _SHARE_TOP + max(heights), *marks, on=on)


def _column(heading: str, rows: Sequence[Share], left: float, top: float, wide: float, on: Canvas) -> str:
    floor = top + _HEAD + _SHARE_ROW * len(rows)
    marks = [text(on.say(heading), left, top + 12, fill=FAINT, size=11)]
    for n in range(5):
        x, dashed = left + n / 4 * wide, {"stroke_dasharray": "4 3"} if n == 2 else {}
        # Only beside the lines of the shares, so that no text is crossed out.
        for m in range(len(rows)):
            y = top + _HEAD + _SHARE_ROW * m
            marks.append(element("line", x1=x, x2=x, y1=y + 18, y2=y + 34, stroke=LINE, stroke_width=1, **dashed))
        anchor = "start" if n == 0 else "end" if n == 4 else "middle"
        marks.append(text(f"{25 * n} %", x, floor + 12, anchor=anchor, fill=FAINT, size=11))
    for n, row in enumerate(rows):
        y = top + _HEAD + _SHARE_ROW * n
        marks.append(text(shorten(row.name, 24), left, y + 13))
        marks.append(text(_figures(row, on), left + wide, y + 13, anchor="end", fill=FAINT, size=11))
        if row.interval is not None:
            marks.append(_range(row, row.interval, left, y + 26, wide, on))
    return "".join(marks)


def _range(row: Share, ends: tuple[float, float], left: float, y: float, wide: float, on: Canvas) -> str:
    low, high = (left + end * wide for end in ends)
    line = element("line", x1=low, x2=high, y1=y, y2=y, stroke=colour(0), stroke_width=3)
    dot = element("circle", cx=left + row.hits / row.count * wide, cy=y, r=5, fill=colour(0))
    return element("g", tip(f"{row.name}: {_figures(row, on)}"), line, dot)


def _figures(row: Share, on: Canvas) -> str:
    of = f"{row.hits:,} / {row.count:,}"
    if row.interval is None:
        return f"{of}, {on.say('too few days')}"
    low, high = row.interval
    return f"{row.hits / row.count:.0%} ({low:.0%} – {high:.0%}), {of}"
