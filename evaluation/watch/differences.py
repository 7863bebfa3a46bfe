"""The paired differences of one metric, by case and in time: the place where watching reads what comparing measures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec
import numpy as np
import numpy.typing as npt

from evaluation.compare.pairing import Pair, paired
from evaluation.compare.rows import HORIZONS, Returns, RunRows
from evaluation.compare.terms import Better, Scoring, Terms, profit_of, terms_of_cases
from evaluation.statistics import block_length_s
from schemas.errors import ConfigError
from schemas.prices import PROFIT_CAP

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

OF_CASES = ("confidence", "action_rate")
PROFIT = "profit"


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """One metric as ``--metric`` names it. ``horizon_s`` in seconds, None for a metric of the case alone. ``cap``: that of
    :class:`Scoring`."""

    name: str
    horizon_s: int | None
    cap: float = PROFIT_CAP

    @property
    def label(self) -> str:
        """As it is written: ``profit@24h``."""
        return self.name if self.horizon_s is None else f"{self.name}@{HORIZONS[self.horizon_s]}"

    @property
    def better(self) -> Better:
        """Which side is better."""
        return "higher" if self.name == PROFIT else "neither"

    @property
    def block_s(self) -> int:
        """The length of a block in seconds."""
        return block_length_s(self.horizon_s or 0)


class Differences(msgspec.Struct, frozen=True, kw_only=True):
    """B minus A of each case that the metric measures, at both ends of what it can be, and the number of the case's block
    since 1970 UTC. The ends differ where a case worked in one run alone.

    Blocks from ``open_from`` on are open. ``left_out`` counts cases of a story that began in an earlier block: that block is
    closed, and stays as it was seen.
    """

    cases: tuple[str, ...]
    least: Floats
    most: Floats
    blocks: Ints
    open_from: int
    left_out: int


def parse_metric(written: str, cap: float = PROFIT_CAP) -> Metric:
    """Return the metric that the option names; ``cap`` is that of a profit.

    Raises:
        ConfigError: there is none of this name that can be watched; the text lists what can.
    """
    name, at, horizon = written.strip().partition("@")
    if name in OF_CASES and not at:
        return Metric(name=name, horizon_s=None)
    if name == PROFIT and (found := {text: seconds for seconds, text in HORIZONS.items()}.get(horizon)):
        return Metric(name=name, horizon_s=found, cap=cap)
    own = " A signal's own horizon may be 30 days, so that ten blocks would take 600." if written == PROFIT else ""
    profits = ", ".join(f"{PROFIT}@{text}" for text in HORIZONS.values())
    raise ConfigError(f"--metric {written!r}: write one of {profits}, {', '.join(OF_CASES)}.{own}")


def differences_of(
    a: RunRows, b: RunRows, returns: Returns, received: Mapping[str, datetime], metric: Metric
) -> Differences:
    """Return the differences of run B from run A. ``received``: when each case was received, UTC.

    Raises:
        ConfigError: no case worked in both runs.
    """
    _, pairs = paired(a, b)
    terms = _terms(pairs, returns, metric)
    blocks = np.array([int(received[p.case_id].timestamp()) // metric.block_s for p in pairs], dtype=np.int64)
    measured = np.asarray((terms.counts > 0).all(axis=1), dtype=bool)
    first: dict[str, int] = {}
    for pair, block in zip(pairs, blocks.tolist(), strict=True):
        first[pair.story_id] = min(block, first.get(pair.story_id, block))
    later = blocks != np.array([first[pair.story_id] for pair in pairs])
    use = measured & ~later
    low, high = terms.low, terms.high  # every metric that can be watched is bounded
    return Differences(
        cases=tuple(pair.case_id for pair, used in zip(pairs, use.tolist(), strict=True) if used),
        least=(low[:, 1] - high[:, 0])[use],
        most=(high[:, 1] - low[:, 0])[use],
        blocks=blocks[use],
        open_from=_open_from(pairs, blocks, measured, np.asarray(terms.unknown.any(axis=1), dtype=bool), metric),
        left_out=int((measured & later).sum()),
    )


def _terms(pairs: Sequence[Pair], returns: Returns, metric: Metric) -> Terms:
    if metric.horizon_s is not None:
        return profit_of(pairs, returns, Scoring(cap=metric.cap), metric.horizon_s)
    return next(terms for terms in terms_of_cases(pairs) if terms.name == metric.name)


def _open_from(pairs: Sequence[Pair], blocks: Ints, measured: Bools, unknown: Bools, metric: Metric) -> int:
    """Return the first open block: that of the newest case; for a profit of the newest that was acted on and has its price.

    Prices come later than cases. Until those of a block are there, its cases would be those that nobody acted on.
    """
    if metric.horizon_s is not None:
        acted = [any(said.side for one in (p.a, p.b) if one is not None for said in one.said) for p in pairs]
        measured = measured & np.array(acted) & ~unknown
    return int(blocks[measured].max(initial=0))
