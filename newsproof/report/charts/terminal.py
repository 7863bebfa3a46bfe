"""Charts of one line, made of block characters (U+2581–U+2588, and U+258F–U+2588 for bars)."""

from __future__ import annotations

import math
from collections.abc import Sequence

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
