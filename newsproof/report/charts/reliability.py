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


class ReliabilityLine(msgspec.Struct, frozen=True, kw_only=True):
    """One series: its bins, the expected calibration error over them (0 is best), and up to which error chance explains it.

    ``colour``: its index, which the raw and the calibrated series of a horizon share. ``dotted``: a calibrated series.
    """

    name: str
    bins: Sequence[ReliabilityBin]
    ece: float
    noise: float
    colour: int = 0
    dotted: bool = False


def reliability_curve(lines: Sequence[ReliabilityLine], *, title: str, on: Canvas = WIDE) -> str:
    """Return the curves in the unit square, with each bin's cases below. A dot's size grows with the number of its cases."""
    drawn = [line for line in lines if line.bins]
    if not drawn:
        return empty(title, "There are no outcomes yet, so nothing can be said of calibration.", on)
    most = max(b.cases for line in drawn for b in line.bins)
    counted, below = _cases(drawn, on)
    marks = [_grid(on), counted]
    beside, top = (16, below + 10) if on.narrow else (_LEFT + _SIDE + 40, _TOP)
    for n, line in enumerate(drawn):
        bins = sorted(line.bins, key=lambda b: b.confidence)
        path = " ".join(
            f"{'M' if k == 0 else 'L'}{_x(b.confidence):.2f} {_y(b.hit_rate):.2f}" for k, b in enumerate(bins)
        )
        dots = {"stroke_dasharray": "2 4"} if line.dotted else {}
        marks.append(element("path", d=path, fill="none", stroke=colour(line.colour), stroke_width=2, **dots))
        for b in bins:
            label = f"{line.name}: said {b.confidence:.2f}, right {b.hit_rate:.2f}, {on.counted(b.cases, 'case')}"
            size = 3 + 6 * (b.cases / most) ** 0.5
            at = {"cx": _x(b.confidence), "cy": _y(b.hit_rate), "r": size}
            marks.append(element("circle", tip(label), **at, **_filled(line)))
        chance = f"{on.say('noise')} {line.noise:.3f}"
        words = f"{line.name}: ECE {line.ece:.3f} ({chance}), {on.counted(sum(b.cases for b in bins), 'case')}"
        marks.append(element("rect", x=beside, y=top + 22 * n, width=10, height=10, rx=2, **_filled(line)))
        marks.append(text(words, beside + 18, top + 22 * n + 9, size=11))
    description = "; ".join(
        f"{line.name}: expected calibration error {line.ece:.3f}, noise floor {line.noise:.3f}" for line in drawn
    )
    label = f"Share of hits by stated confidence beside the diagonal. {description}"
    height = below + 10 + 22 * len(drawn) if on.narrow else max(below, _TOP + 22 * len(drawn))
    return drawing(title, label, height, *marks, on=on)


def _cases(lines: Sequence[ReliabilityLine], on: Canvas) -> tuple[str, float]:
    """Return each line's cases by tenth of confidence, in rows under the axis, and where they end."""
    top = _y(0) + 54
    marks = [text(on.say("cases by tenth of confidence"), _LEFT, top, fill=FAINT, size=11)]
    for n, line in enumerate(lines):
        row = top + 16 * (n + 1)
        marks.append(element("rect", x=_LEFT - 20, y=row - 9, width=10, height=10, rx=2, **_filled(line)))
        for b in line.bins:
            middle = (min(9, int(b.confidence * 10 + 1e-9)) + 0.5) / 10
            cases = f"{b.cases}" if b.cases < 10_000 else f"{b.cases // 1000}k"
            marks.append(text(cases, _x(middle), row, anchor="middle", size=11))
    return "".join(marks), top + 16 * len(lines) + 8


def _filled(line: ReliabilityLine) -> dict[str, str | float]:
    """Return the fill of a series: hollow for a calibrated one."""
    if line.dotted:
        return {"fill": "none", "stroke": colour(line.colour), "stroke_width": 2}
    return {"fill": colour(line.colour)}


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
