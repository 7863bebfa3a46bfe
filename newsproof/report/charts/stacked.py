"""Stacked bars: one bar per day, divided by series."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from newsproof.report.charts.svg import (
    COLOURS,
    FAINT,
    LINE,
    WIDTH,
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


def stacked_bars(stacks: Sequence[Stack], *, title: str, unit: str) -> str:
    """Return the bars side by side. With more than eight series, the smallest are drawn together as "other"."""
    names, bars = _series(stacks)
    top = max((sum(bar.parts.values()) for bar in bars), default=0.0)
    if top <= 0:
        return empty(
            title, f"There is nothing to draw: every value is 0 {unit}." if stacks else "There is no data yet."
        )
    scale = ticks(top)
    floor, slot = _TOP + _HEIGHT, (WIDTH - _LEFT - 16) / len(bars)
    marks = [_rule(value, floor - value / scale[-1] * _HEIGHT) for value in scale]
    for n, bar in enumerate(bars):
        x, y, wide = _LEFT + n * slot + slot * 0.15, float(floor), min(slot * 0.7, 60)
        for at, name in enumerate(names):
            value = bar.parts.get(name, 0.0)
            height = value / scale[-1] * _HEIGHT
            if height > 0:
                y -= height
                said = tip(f"{bar.label}, {name}: {value:,.6g} {unit}")
                marks.append(element("rect", said, x=x, y=y, width=wide, height=height, fill=colour(at)))
        if n % max(1, len(bars) // 8) == 0:
            marks.append(text(bar.label, x, floor + 16, fill=FAINT, size=11))
    lines = (len(names) + 3) // 4
    description = "; ".join(f"{bar.label}: {sum(bar.parts.values()):,.6g} {unit}" for bar in bars[:14])
    return drawing(title, description, floor + 30 + 18 * lines, *marks, legend(names, floor + 40))


def _rule(value: float, y: float) -> str:
    line = element("line", x1=_LEFT, x2=WIDTH - 10, y1=y, y2=y, stroke=LINE, stroke_width=1)
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
