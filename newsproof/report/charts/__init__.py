"""Charts: pure functions from numbers to an SVG element. No clock, no files, no scripts.

Every SVG has ``role="img"``, a title and a description. Its colours are CSS variables (:data:`STYLE`) with fixed
fallbacks, so that it is legible on a page in light or dark. All text that is passed in is escaped.
"""

from __future__ import annotations

from newsproof.report.charts.bars import Bin, Stack, histogram, stacked_bars
from newsproof.report.charts.ranges import Percentiles, Share, percentile_ranges, share_ranges
from newsproof.report.charts.reliability import ReliabilityBin, ReliabilityLine, reliability_curve
from newsproof.report.charts.study import Curve, CurvePoint, study_panels
from newsproof.report.charts.svg import NARROW, STYLE, WIDE, Canvas

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
    "histogram",
    "percentile_ranges",
    "reliability_curve",
    "share_ranges",
    "stacked_bars",
    "study_panels",
]
