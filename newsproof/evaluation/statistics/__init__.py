"""Statistics of paired runs: pure functions over arrays, checked against scipy in the tests.

Cases of one story are not independent observations: a news item reported by six sources moves all six cases together.
So every measure of uncertainty draws or counts *stories*, never cases.
"""

from newsproof.evaluation.statistics.bootstrap import (
    MIN_CLUSTERS,
    Interval,
    cluster_sums,
    interval_of,
    paired_bootstrap,
    resampled_sums,
)
from newsproof.evaluation.statistics.calibration import BINS, bin_of, brier, calibration_gaps, ece, hit_rate
from newsproof.evaluation.statistics.exact import mcnemar_by_story, mcnemar_exact, wilson
from newsproof.evaluation.statistics.multiplicity import holm

__all__ = [
    "BINS",
    "MIN_CLUSTERS",
    "Interval",
    "bin_of",
    "brier",
    "calibration_gaps",
    "cluster_sums",
    "ece",
    "hit_rate",
    "holm",
    "interval_of",
    "mcnemar_by_story",
    "mcnemar_exact",
    "paired_bootstrap",
    "resampled_sums",
    "wilson",
]
