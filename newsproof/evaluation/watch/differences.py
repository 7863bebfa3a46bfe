"""The paired differences of one metric, by case and in time: the place where watching reads what comparing measures."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec
import numpy as np
import numpy.typing as npt

from newsproof.evaluation.compare.metrics import Better, Sample, _of_cases, _of_outcomes
from newsproof.evaluation.compare.pairing import paired
from newsproof.evaluation.compare.rows import HORIZONS, RunRows
from newsproof.evaluation.statistics.sequence import block_s
from schemas.errors import ConfigError

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

OF_CASES: dict[str, Better] = {"confidence": "neither", "action_rate": "neither", "full_cost": "lower"}
OF_OUTCOMES: dict[str, Better] = {"hit_rate": "higher", "brier": "lower"}
"""Metrics that are a mean over cases, and which side is better. A calibration error is none, and flips have no direction."""
DEFAULT_METRIC = "brier@4h"


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """One metric as ``--metric`` names it. ``horizon_s`` in seconds, None for a metric of the case alone."""

    name: str
    horizon_s: int | None
    better: Better

    @property
    def label(self) -> str:
        """As it is written: ``brier@4h``."""
        return self.name if self.horizon_s is None else f"{self.name}@{HORIZONS[self.horizon_s]}"


class Differences(msgspec.Struct, frozen=True, kw_only=True):
    """B minus A of each case in both that the metric measures, with the number of its block since 1970 UTC.

    ``left_out`` counts cases of a story that began in an earlier block: that block is closed, and stays as it was seen.
    """

    values: Floats
    blocks: Ints
    left_out: int


def parse_metric(written: str) -> Metric:
    """Return the metric that the option names.

    Raises:
        ConfigError: there is none of this name; the text lists what there is.
    """
    name, at, horizon = written.strip().partition("@")
    by_name = {text: seconds for seconds, text in HORIZONS.items()}
    if name in OF_CASES and not at:
        return Metric(name=name, horizon_s=None, better=OF_CASES[name])
    if name in OF_OUTCOMES and horizon in by_name:
        return Metric(name=name, horizon_s=by_name[horizon], better=OF_OUTCOMES[name])
    raise ConfigError(
        f"--metric {written!r}: write {', '.join(OF_CASES)}, or one of {', '.join(OF_OUTCOMES)} with a horizon "
        f"({', '.join(by_name)}), such as {DEFAULT_METRIC}"
    )


def differences_of(a: RunRows, b: RunRows, received: Mapping[str, datetime], metric: Metric) -> Differences:
    """Return the differences of run B from run A. ``received``: when each case of B was received, UTC.

    Raises:
        ConfigError: no case worked in both runs.
    """
    _, pairs = paired(a, b)
    sample = _sample(_of_cases(pairs) if metric.horizon_s is None else _of_outcomes(pairs, (a.hits, b.hits), metric.horizon_s), metric)  # fmt: skip
    blocks = np.array(
        [int(received[one.case_id].timestamp()) // block_s(metric.horizon_s or 0) for one, _ in pairs], dtype=np.int64
    )
    first: dict[str, int] = {}
    for (one, _), block in zip(pairs, blocks.tolist(), strict=True):
        first[one.story_id] = min(block, first.get(one.story_id, block))
    began = np.array([first[one.story_id] for one, _ in pairs], dtype=np.int64)
    use = sample.use & (blocks == began)
    return Differences(
        values=(sample.b - sample.a)[use, 0], blocks=blocks[use], left_out=int((sample.use & (blocks != began)).sum())
    )


def _sample(samples: list[Sample], metric: Metric) -> Sample:
    return next(s for s in samples if s.name == metric.name)
