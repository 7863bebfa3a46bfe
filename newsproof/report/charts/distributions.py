"""A histogram of bins that may lie on both sides of zero."""

from __future__ import annotations

from collections.abc import Sequence

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
    text,
    ticks,
    tip,
)

_LEFT, _TOP, _HEIGHT = 50, 16, 180


class Bin(msgspec.Struct, frozen=True):
    """Number of values from ``low`` up to ``low`` + the histogram's step."""

    low: float
    count: int


def histogram(bins: Sequence[Bin], *, step: float, title: str, noun: str, on: Canvas = WIDE) -> str:
    """Return the bins as columns; those below zero have another colour. ``noun`` says what is counted."""
    counted = [b for b in bins if b.count > 0]
    if not counted:
        return empty(title, "There is no data yet.", on)
    first = min(round(b.low / step) for b in counted)
    last = max(round(b.low / step) for b in counted)
    scale = ticks(max(b.count for b in counted))
    wide, floor = (on.width - _LEFT - 16) / (last - first + 1), _TOP + _HEIGHT
    marks = []
    for value in scale:
        y = floor - value / scale[-1] * _HEIGHT
        marks.append(element("line", x1=_LEFT, x2=on.width - 10, y1=y, y2=y, stroke=LINE, stroke_width=1))
        marks.append(text(f"{value:,.6g}", _LEFT - 8, y + 4, anchor="end", fill=FAINT, size=11))
    for one in counted:
        place = round(one.low / step)
        height = one.count / scale[-1] * _HEIGHT
        said = f"{_signed(place * step)} to {_signed((place + 1) * step)}: {one.count} {noun}"
        box = {
            "x": _LEFT + (place - first) * wide + 1,
            "y": floor - height,
            "width": max(wide - 2, 1),
            "height": height,
        }
        marks.append(element("rect", tip(said), fill=colour(0 if place >= 0 else 1), **box))
    every = max(1, (last - first + 1) // (5 if on.narrow else 10))
    for place in range(first, last + 2, every):
        marks.append(
            text(
                _signed(place * step), _LEFT + (place - first) * wide, floor + 16, anchor="middle", fill=FAINT, size=11
            )
        )
    if first < 0 <= last:
        zero = _LEFT - first * wide
        marks.append(element("line", x1=zero, x2=zero, y1=_TOP, y2=floor, stroke=INK, stroke_width=1))
    description = "; ".join(f"from {_signed(b.low)}: {b.count}" for b in sorted(counted, key=lambda b: b.low))
    return drawing(title, f"Number of {noun} by bin of {step:g}. {description}", floor + 28, *marks, on=on)


def _signed(value: float) -> str:
    return f"{value:+.2g}" if abs(value) > 1e-9 else "0"
