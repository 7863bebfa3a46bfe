"""Statistics of paired runs: pure functions over arrays, checked against scipy in the tests.

Cases of one day or of one story are not independent observations. So every measure of uncertainty works on *blocks of time*,
never on cases.
"""

from evaluation.statistics.blocks import (
    FEW_BLOCKS,
    MIN_BLOCKS,
    Estimate,
    Grid,
    block_length_s,
    blocks_of,
    grid_of,
    heterogeneity,
    holm,
    inflation_of,
    mean_of,
    scores_of,
    share_interval,
    wild_bootstrap,
)
from evaluation.statistics.calibration import BINS, BrierParts, bin_of, brier_parts

__all__ = [
    "BINS",
    "FEW_BLOCKS",
    "MIN_BLOCKS",
    "BrierParts",
    "Estimate",
    "Grid",
    "bin_of",
    "block_length_s",
    "blocks_of",
    "brier_parts",
    "grid_of",
    "heterogeneity",
    "holm",
    "inflation_of",
    "mean_of",
    "scores_of",
    "share_interval",
    "wild_bootstrap",
]
