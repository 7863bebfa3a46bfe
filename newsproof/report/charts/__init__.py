"""Charts as text: pure functions from figures to an SVG element or to a line of a terminal. No clock, no files, no scripts.

Every SVG carries ``role="img"``, a title and a description, and takes its colours from CSS variables (:data:`STYLE`) with
fixed ones as fallback, so that a page in light or dark shows it alike. All text that is handed in is escaped.
"""

from __future__ import annotations

from newsproof.report.charts.distributions import Bin, histogram
from newsproof.report.charts.percentiles import Percentiles, percentile_ranges
from newsproof.report.charts.reliability import ReliabilityBin, ReliabilityLine, reliability_curve
from newsproof.report.charts.stacked import Stack, stacked_bars
from newsproof.report.charts.svg import STYLE
from newsproof.report.charts.terminal import bar, sparkline

__all__ = [
    "STYLE",
    "Bin",
    "Percentiles",
    "ReliabilityBin",
    "ReliabilityLine",
    "Stack",
    "bar",
    "histogram",
    "percentile_ranges",
    "reliability_curve",
    "sparkline",
    "stacked_bars",
]
