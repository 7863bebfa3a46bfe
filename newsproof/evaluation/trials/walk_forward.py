"""Walk-forward choice: what choosing by the past would have brought. Pure.

The best of several candidates on a period looks better there than it is. Here each block of time is decided by the
candidate that was best on the blocks before it, so that no case is judged by a choice that it had a part in.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from newsproof.evaluation.statistics import Estimate, mean_of

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

FIRST_BLOCKS = 5
"""Blocks that are chosen by before the first block is scored."""


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """One scored block: its number since 1970 UTC, the candidate chosen for it, and that one's mean difference there."""

    block: int
    candidate: str
    cases: int
    delta: float


class WalkForward(msgspec.Struct, frozen=True, kw_only=True):
    """``out_of_sample`` and ``at_most``: the chosen candidates on the blocks that followed, candidate minus baseline, more being
    better, at both ends of what ``unknown`` cases can have come to.

    ``in_sample``: the candidate that is best over the same cases, judged on them, which flatters. ``best`` names it.
    """

    candidates: tuple[str, ...]
    out_of_sample: Estimate
    at_most: Estimate
    unknown: int
    in_sample: float
    best: str
    choices: tuple[Choice, ...]


def walk_forward(
    names: Sequence[str],
    differences: Floats,
    blocks: Ints,
    *,
    most: Floats | None = None,
    embargo: int = 0,
    first: int = FIRST_BLOCKS,
    seed: int = 0,
) -> WalkForward | None:
    """Choose at each block the candidate with the largest mean over all cases of earlier blocks, and score it on the block.

    ``differences`` is (cases x candidates), each candidate minus the baseline, more being better, at the least that it can be;
    ``most`` at the most (None: all are known). What is chosen is chosen by the least. ``blocks`` holds the number of each
    case's block. ``embargo``: so many blocks just before are not chosen by, as their outcomes are not known yet. Of
    equal candidates the first is chosen. None: no more than ``first`` + ``embargo`` blocks, so that none can be scored.

    Raises:
        ValueError: the arrays do not fit each other.
    """
    if differences.shape != (blocks.size, len(names)):
        raise ValueError(f"{differences.shape} differences, {blocks.size} blocks and {len(names)} candidates")
    order = np.unique(blocks)
    upper = differences if most is None else most
    choices, scored = [], np.zeros(blocks.size, dtype=bool)
    chosen, at_most = np.zeros(blocks.size), np.zeros(blocks.size)
    for position in range(first + embargo, order.size):
        known = blocks <= order[position - embargo - 1]
        winner = int(np.argmax(differences[known].mean(axis=0)))
        here = blocks == order[position]
        scored |= here
        chosen[here], at_most[here] = differences[here, winner], upper[here, winner]
        choices.append(
            Choice(
                block=int(order[position]),
                candidate=names[winner],
                cases=int(here.sum()),
                delta=float(differences[here, winner].mean()),
            )
        )
    if not choices:
        return None
    values, labels = chosen[scored], np.unique(blocks[scored], return_inverse=True)[1].astype(np.intp)
    means = differences[scored].mean(axis=0)
    best = int(np.argmax(means))
    return WalkForward(
        candidates=tuple(names),
        out_of_sample=mean_of(values, labels, seed=seed),
        at_most=mean_of(at_most[scored], labels, seed=seed),
        unknown=int((at_most[scored] != values).sum()),
        in_sample=float(means[best]),
        best=names[best],
        choices=tuple(choices),
    )
