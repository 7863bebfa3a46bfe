"""Charts as text: pure functions from figures to an SVG element or a terminal line. No clock, no files, no scripts.

Every SVG has ``role="img"``, a title and a description. Its colours are CSS variables (:data:`STYLE`) with fixed
fallbacks, so that it is legible on a page in light or dark. All text that is passed in is escaped.
"""

from __future__ import annotations

from newsproof.report.charts.distributions import Bin, histogram
from newsproof.report.charts.percentiles import Percentiles, percentile_ranges
from newsproof.report.charts.reliability import ReliabilityBin, ReliabilityLine, reliability_curve
from newsproof.report.charts.shares import Share, share_ranges
from newsproof.report.charts.stacked import Stack, stacked_bars
from newsproof.report.charts.study import Curve, CurvePoint, study_panels
from newsproof.report.charts.svg import NARROW, STYLE, WIDE, Canvas
from newsproof.report.charts.terminal import bar, sparkline

__all__ = [
    "NARROW",
    "STYLE",
    "WIDE",
    "Bin",
    "Canvas",
    "Curve",
    "CurvePoint",
    "Percentiles",
    "ReliabilityBin",
    "ReliabilityLine",
    "Share",
    "Stack",
    "bar",
    "histogram",
    "percentile_ranges",
    "reliability_curve",
    "share_ranges",
    "sparkline",
    "stacked_bars",
    "study_panels",
]
