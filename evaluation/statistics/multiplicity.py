"""Holm's correction for multiple tests."""

from __future__ import annotations

from collections.abc import Sequence


def holm(pvalues: Sequence[float]) -> list[float]:
    """Return adjusted p-values in input order; comparing them with 0.05 bounds the family-wise error rate at 5 %.

    Source: Holm 1979, Scandinavian Journal of Statistics 6, 65-70. Needs no independence between the tests.
    """
    adjusted = [0.0] * len(pvalues)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(pvalues)), key=pvalues.__getitem__)):
        largest = max(largest, min(1.0, (len(pvalues) - rank) * pvalues[index]))
        adjusted[index] = largest
    return adjusted
