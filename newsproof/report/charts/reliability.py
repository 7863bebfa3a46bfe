"""Reliability curve: share of hits by stated confidence. A perfect forecast is on the diagonal."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from newsproof.report.charts.svg import FAINT, INK, LINE, WIDE, Canvas, colour, drawing, element, empty, text, tip

_LEFT, _TOP, _SIDE = 40, 22, 300


class ReliabilityBin(msgspec.Struct, frozen=True):
    """Mean confidence (0–1) and share of hits (0–1) of the cases of one bin."""

    confidence: float
    hit_rate: float
    cases: int


class ReliabilityLine(msgspec.Struct, frozen=True):
    """One horizon: its bins, and the expected calibration error over them (0 is best)."""

    name: str
    bins: Sequence[ReliabilityBin]
    ece: float


def reliability_curve(lines: Sequence[ReliabilityLine], *, title: str, on: Canvas = WIDE) -> str:
    """Return the curves in the unit square. A dot's size grows with the number of its cases."""
    drawn = [line for line in lines if line.bins]
    if not drawn:
        return empty(title, "There are no outcomes yet, so nothing can be said of calibration.", on)
    most = max(b.cases for line in drawn for b in line.bins)
    marks = [_grid(on)]
    beside, top = (16, _TOP + _SIDE + 54) if on.narrow else (_LEFT + _SIDE + 40, _TOP)
    for n, line in enumerate(drawn):
        bins = sorted(line.bins, key=lambda b: b.confidence)
        path = " ".join(
            f"{'M' if k == 0 else 'L'}{_x(b.confidence):.2f} {_y(b.hit_rate):.2f}" for k, b in enumerate(bins)
        )
        marks.append(element("path", d=path, fill="none", stroke=colour(n), stroke_width=2))
        for b in bins:
            said = f"{line.name}: said {b.confidence:.2f}, right {b.hit_rate:.2f}, {on.counted(b.cases, 'case')}"
            size = 3 + 6 * (b.cases / most) ** 0.5
            marks.append(element("circle", tip(said), cx=_x(b.confidence), cy=_y(b.hit_rate), r=size, fill=colour(n)))
        words = f"{line.name}: ECE {line.ece:.3f}, {on.counted(sum(b.cases for b in bins), 'case')}"
        marks.append(element("rect", x=beside, y=top + 22 * n, width=10, height=10, rx=2, fill=colour(n)))
        marks.append(text(words, beside + 18, top + 22 * n + 9))
    description = "; ".join(f"{line.name}: expected calibration error {line.ece:.3f}" for line in drawn)
    said = f"Share of hits by stated confidence beside the diagonal. {description}"
    height = _TOP + _SIDE + 44 + (22 * len(drawn) + 10 if on.narrow else 0)
    return drawing(title, said, height, *marks, on=on)


def _x(value: float) -> float:
    return _LEFT + min(max(value, 0.0), 1.0) * _SIDE


def _y(value: float) -> float:
    return _TOP + (1 - min(max(value, 0.0), 1.0)) * _SIDE


def _grid(on: Canvas) -> str:
    marks = []
    for n in range(6):
        value = n / 5
        marks.append(element("line", x1=_x(value), x2=_x(value), y1=_y(0), y2=_y(1), stroke=LINE, stroke_width=1))
        marks.append(element("line", x1=_x(0), x2=_x(1), y1=_y(value), y2=_y(value), stroke=LINE, stroke_width=1))
        marks.append(text(f"{value:g}", _x(value), _y(0) + 16, anchor="middle", fill=FAINT, size=11))
        marks.append(text(f"{value:g}", _LEFT - 8, _y(value) + 4, anchor="end", fill=FAINT, size=11))
    dashed = {"stroke_dasharray": "5 4", "stroke_width": 1.5}
    marks.append(element("line", x1=_x(0), y1=_y(0), x2=_x(1), y2=_y(1), stroke=INK, **dashed))  # type: ignore[arg-type]
    marks.append(text(on.say("stated confidence"), _x(0.5), _y(0) + 34, anchor="middle", fill=FAINT, size=11))
    share = on.say("share of hits (dashed: perfectly calibrated)")
    marks.append(text(share, _LEFT, _TOP - 6, fill=FAINT, size=11))
    return "".join(marks)
