"""Shares with their intervals, one row per name, in two columns where there is room."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from newsproof.report.charts.svg import FAINT, LINE, WIDE, Canvas, colour, drawing, element, empty, shorten, text, tip

_TOP, _HEAD, _ROW, _FOOT, _GAP = 8, 24, 38, 26, 32


class Share(msgspec.Struct, frozen=True):
    """``hits`` of ``count`` cases, and the 95 % interval of their share; None: too few days for one."""

    name: str
    hits: int
    count: int
    interval: tuple[float, float] | None


def share_ranges(columns: Sequence[tuple[str, Sequence[Share]]], *, title: str, on: Canvas = WIDE) -> str:
    """Return a line for each share, from the lower to the upper end of its interval, beside one half (dashed).

    ``columns``: a heading, and its rows. What has no interval is counted and not drawn.
    """
    drawn = [(heading, rows) for heading, rows in columns if rows]
    if not drawn:
        return empty(title, "There are no outcomes yet.", on)
    across = 1 if on.narrow else 2
    wide = (on.width - _GAP * (across - 1)) / across - 24
    heights = [0.0] * across
    marks = []
    for n, (heading, rows) in enumerate(drawn):
        left, top = 12 + n % across * (wide + 24 + _GAP), _TOP + heights[n % across]
        marks.append(_column(heading, rows, left, top, wide, on))
        heights[n % across] += _HEAD + _ROW * len(rows) + _FOOT
    said = "; ".join(f"{on.say(row.name)}: {_figures(row, on)}" for _, rows in drawn for row in rows)
    return drawing(title, f"Shares with their 95 % intervals. {said}", _TOP + max(heights), *marks, on=on)


def _column(heading: str, rows: Sequence[Share], left: float, top: float, wide: float, on: Canvas) -> str:
    floor = top + _HEAD + _ROW * len(rows)
    marks = [text(on.say(heading), left, top + 12, fill=FAINT, size=11)]
    for n in range(5):
        x, dashed = left + n / 4 * wide, {"stroke_dasharray": "4 3"} if n == 2 else {}
        marks.append(element("line", x1=x, x2=x, y1=top + _HEAD, y2=floor, stroke=LINE, stroke_width=1, **dashed))
        anchor = "start" if n == 0 else "end" if n == 4 else "middle"
        marks.append(text(f"{25 * n} %", x, floor + 14, anchor=anchor, fill=FAINT, size=11))
    for n, row in enumerate(rows):
        y = top + _HEAD + _ROW * n
        marks.append(text(shorten(on.say(row.name), 24), left, y + 13))
        marks.append(text(_figures(row, on), left + wide, y + 13, anchor="end", fill=FAINT, size=11))
        if row.interval is not None:
            marks.append(_range(row, row.interval, left, y + 26, wide, on))
    return "".join(marks)


def _range(row: Share, ends: tuple[float, float], left: float, y: float, wide: float, on: Canvas) -> str:
    low, high = (left + end * wide for end in ends)
    line = element("line", x1=low, x2=high, y1=y, y2=y, stroke=colour(0), stroke_width=3)
    dot = element("circle", cx=left + row.hits / row.count * wide, cy=y, r=5, fill=colour(0))
    return element("g", tip(f"{on.say(row.name)}: {_figures(row, on)}"), line, dot)


def _figures(row: Share, on: Canvas) -> str:
    of = f"{row.hits:,} / {row.count:,}"
    if row.interval is None:
        return f"{of}, {on.say('too few days')}"
    low, high = row.interval
    return f"{row.hits / row.count:.0%} ({low:.0%} – {high:.0%}), {of}"
