"""Bar charts: stacked bars over time, and a histogram whose bins may be on both sides of zero."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from newsproof.report.charts.svg import (
    COLOURS,
    FAINT,
    INK,
    LINE,
    WIDE,
    Canvas,
    colour,
    drawing,
    element,
    empty,
    legend,
    text,
    ticks,
    tip,
)

_LEFT, _TOP, _HEIGHT = 70, 16, 200
_LABEL = 62
"""Width of a date."""
_REST = "other"


class Stack(msgspec.Struct, frozen=True):
    """One bar: its label, and the value of each series. Values ≤ 0 are skipped."""

    label: str
    parts: Mapping[str, float]


def stacked_bars(
    stacks: Sequence[Stack], *, title: str, unit: str, on: Canvas = WIDE, colours: Mapping[str, int] | None = None
) -> str:
    """Return the bars side by side. With more than eight series, the smallest are drawn together as "other".

    ``colours``: the series from bottom to top, each with its colour. Default: the largest at the bottom.
    """
    names, bars = _series(stacks)
    ink = colours or {name: n for n, name in enumerate(names)}
    names = [name for name in ink if name in names]
    top = max((sum(bar.parts.values()) for bar in bars), default=0.0)
    if top <= 0:
        why = f"There is nothing to draw: every value is 0 {unit}." if stacks else "There is no data yet."
        return empty(title, why, on)
    scale = ticks(top)
    floor, slot = _TOP + _HEIGHT, (on.width - _LEFT - 16) / len(bars)
    marks = [_rule(value, floor - value / scale[-1] * _HEIGHT, on) for value in scale]
    every = max(1, -(-len(bars) // (4 if on.narrow else 8)))
    for n, bar in enumerate(bars):
        x, y, wide = _LEFT + n * slot + slot * 0.15, float(floor), min(slot * 0.7, 60)
        for name in names:
            value = bar.parts.get(name, 0.0)
            height = value / scale[-1] * _HEIGHT
            if height > 0:
                y -= height
                label = tip(f"{bar.label}, {on.say(name)}: {value:,.6g} {unit}")
                marks.append(element("rect", label, x=x, y=y, width=wide, height=height, fill=colour(ink[name])))
        if n % every == 0:
            at, anchor = (x, "start") if x + _LABEL < on.width else (x + wide, "end")
            marks.append(text(bar.label, at, floor + 16, anchor=anchor, fill=FAINT, size=11))
    key, high = legend([(name, ink[name]) for name in names], floor + 40, on=on)
    description = "; ".join(f"{bar.label}: {sum(bar.parts.values()):,.6g} {unit}" for bar in bars[:14])
    return drawing(title, description, floor + 30 + high, *marks, key, on=on)


def _rule(value: float, y: float, on: Canvas) -> str:
    line = element("line", x1=_LEFT, x2=on.width - 10, y1=y, y2=y, stroke=LINE, stroke_width=1)
    return line + text(f"{value:,.6g}", _LEFT - 8, y + 4, anchor="end", fill=FAINT, size=11)


def _series(stacks: Sequence[Stack]) -> tuple[list[str], list[Stack]]:
    """Return the series names, largest first, and the bars reduced to those names."""
    sums: dict[str, float] = {}
    for stack in stacks:
        for name, value in stack.parts.items():
            if value > 0:
                sums[name] = sums.get(name, 0.0) + value
    names = sorted(sums, key=lambda name: (-sums[name], name))
    kept = names if len(names) <= len(COLOURS) else names[: len(COLOURS) - 1]
    bars = []
    for stack in stacks:
        parts = {name: max(stack.parts.get(name, 0.0), 0.0) for name in kept}
        rest = sum(value for name, value in stack.parts.items() if name not in kept and value > 0)
        bars.append(Stack(stack.label, parts | ({_REST: rest} if len(kept) < len(names) else {})))
    return (kept if len(kept) == len(names) else [*kept, _REST]), bars


_BIN_LEFT, _BIN_TOP, _BIN_HEIGHT = 50, 16, 180


class Bin(msgspec.Struct, frozen=True):
    """Number of values from ``low`` up to ``low`` + the histogram's step."""

    low: float
    count: int


def histogram(bins: Sequence[Bin], *, step: float, title: str, noun: str, on: Canvas = WIDE) -> str:
    """Return the bins as columns; those below zero have another colour. ``noun``: the counted thing."""
    counted = [b for b in bins if b.count > 0]
    if not counted:
        return empty(title, "There is no data yet.", on)
    first = min(round(b.low / step) for b in counted)
    last = max(round(b.low / step) for b in counted)
    scale = ticks(max(b.count for b in counted))
    wide, floor = (on.width - _BIN_LEFT - 16) / (last - first + 1), _BIN_TOP + _BIN_HEIGHT
    marks = []
    for value in scale:
        y = floor - value / scale[-1] * _BIN_HEIGHT
        marks.append(element("line", x1=_BIN_LEFT, x2=on.width - 10, y1=y, y2=y, stroke=LINE, stroke_width=1))
        marks.append(text(f"{value:,.6g}", _BIN_LEFT - 8, y + 4, anchor="end", fill=FAINT, size=11))
    for bucket in counted:
        place = round(bucket.low / step)
        height = bucket.count / scale[-1] * _BIN_HEIGHT
        label = f"{_signed(place * step)} to {_signed((place + 1) * step)}: {bucket.count} {noun}"
        box = {
            "x": _BIN_LEFT + (place - first) * wide + 1,
            "y": floor - height,
            "width": max(wide - 2, 1),
            "height": height,
        }
        marks.append(element("rect", tip(label), fill=colour(0 if place >= 0 else 1), **box))
    every = max(1, (last - first + 1) // (5 if on.narrow else 10))
    for place in range(first, last + 2, every):
        marks.append(
            text(
                _signed(place * step),
                _BIN_LEFT + (place - first) * wide,
                floor + 16,
                anchor="middle",
                fill=FAINT,
                size=11,
            )
        )
    if first < 0 <= last:
        zero = _BIN_LEFT - first * wide
        marks.append(element("line", x1=zero, x2=zero, y1=_BIN_TOP, y2=floor, stroke=INK, stroke_width=1))
    description = "; ".join(f"from {_signed(b.low)}: {b.count}" for b in sorted(counted, key=lambda b: b.low))
    return drawing(title, f"Number of {noun} by bin of {step:g}. {description}", floor + 28, *marks, on=on)


def _signed(value: float) -> str:
    return f"{value:+.2g}" if abs(value) > 1e-9 else "0"
