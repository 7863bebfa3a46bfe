"""Stacked bars: one bar per day, week or month, divided by series."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from newsproof.report.charts.svg import (
    COLOURS,
    FAINT,
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
_REST = "other"


class Stack(msgspec.Struct, frozen=True):
    """One bar: its label, and the value of each series (values ≤ 0 are left out)."""

    label: str
    parts: Mapping[str, float]


def stacked_bars(
    stacks: Sequence[Stack], *, title: str, unit: str, on: Canvas = WIDE, colours: Mapping[str, int] | None = None
) -> str:
    """Return the bars side by side. With more than eight series, the smallest are drawn together as "other".

    ``colours``: the series in the order in which they stand on each other, each with its colour; without them the largest
    is the lowest.
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
                said = tip(f"{bar.label}, {on.say(name)}: {value:,.6g} {unit}")
                marks.append(element("rect", said, x=x, y=y, width=wide, height=height, fill=colour(ink[name])))
        if n % every == 0:
            marks.append(text(bar.label, x, floor + 16, fill=FAINT, size=11))
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
