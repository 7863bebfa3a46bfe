"""Charts of the standard report as images: the drawings of ``newsproof report --html``, in fixed colours.

An image cannot use the page's colours, so the variables of :data:`newsproof.report.charts.STYLE` are replaced here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

from newsproof.report.charts import STYLE
from newsproof.report.data import Report
from newsproof.report.drawn import confidence, cost, latency, reliability

Theme = Literal["light", "dark"]
_USED = re.compile(r"var\((--[a-z0-9]+),[^)]*\)")
_SET = re.compile(r"(--[a-z0-9]+):([^;}]+)")
_LIGHT, _DARK = (dict(_SET.findall(part)) for part in STYLE.split("@media"))


CHARTS: dict[str, Callable[[Report], str]] = {
    "cost": cost,
    "latency": latency,
    "confidence": confidence,
    "reliability": reliability,
}


def drawn(name: str, report: Report, theme: Theme) -> str:
    """Return one of :data:`CHARTS` as an SVG document in the colours of a theme.

    Raises:
        KeyError: there is no such chart.
    """
    return in_colours(CHARTS[name](report), theme)


def in_colours(svg: str, theme: Theme) -> str:
    """Return a drawing in the colours of a theme."""
    colours = _DARK if theme == "dark" else _LIGHT
    return _USED.sub(lambda used: colours[used.group(1)], svg)
