"""Walk-forward choice: by the past alone, scored on what followed."""

from __future__ import annotations

import numpy as np
import pytest

from newsproof.evaluation.trials.walk_forward import walk_forward


def test_each_block_is_decided_by_the_candidate_that_was_best_on_the_blocks_before() -> None:
    # Two cases a block; `a` is better in the first four blocks, `b` from then on.
    blocks = np.repeat(np.arange(8), 2)
    a = np.where(blocks < 4, 1.0, -1.0)
    found = walk_forward(["a", "b"], np.column_stack([a, -a]), blocks, first=2)
    assert found is not None
    # Sums of `a` before each block: 4, 6, 8, 6, 4, 2 > 0: it stays chosen, also where it loses.
    assert [(c.block, c.candidate, c.delta, c.cases) for c in found.choices] == [
        (2, "a", 1.0, 2), (3, "a", 1.0, 2), (4, "a", -1.0, 2), (5, "a", -1.0, 2), (6, "a", -1.0, 2), (7, "a", -1.0, 2),
    ]  # fmt: skip
    assert found.out_of_sample.estimate == pytest.approx(-4 / 12)
    assert (found.best, found.in_sample) == ("b", pytest.approx(4 / 12))


def test_the_last_block_is_not_chosen_by_where_its_outcomes_are_not_known_yet() -> None:
    blocks = np.arange(4)
    values = np.column_stack([[1.0, 0.0, 0.0, 0.0], [0.0, 9.0, 0.0, 0.0]])
    without, kept = (walk_forward(["a", "b"], values, blocks, first=1, embargo=n) for n in (0, 1))
    assert without is not None and [c.candidate for c in without.choices] == ["a", "b", "b"]
    assert kept is not None and [(c.block, c.candidate) for c in kept.choices] == [(2, "a"), (3, "b")]


def test_a_choice_never_knows_the_block_that_it_is_scored_on() -> None:
    rng, blocks = np.random.default_rng(3), np.repeat(np.arange(12), 3)
    values = rng.normal(size=(36, 4))
    first = walk_forward(list("abcd"), values, blocks)
    changed = values.copy()
    changed[blocks == 11] *= -5.0
    second = walk_forward(list("abcd"), changed, blocks)
    assert first is not None and second is not None
    assert [c.candidate for c in first.choices] == [c.candidate for c in second.choices]


def test_over_equal_candidates_the_winner_flatters_and_walk_forward_does_not() -> None:
    rng, blocks = np.random.default_rng(4), np.repeat(np.arange(30), 4)
    inside, outside = [], []
    for _ in range(60):
        found = walk_forward([str(n) for n in range(10)], rng.normal(size=(120, 10)), blocks)
        assert found is not None
        inside.append(found.in_sample)
        outside.append(found.out_of_sample.estimate)
    # The best of ten means of 100: about 1.54 standard errors of 0.1.
    assert np.mean(inside) == pytest.approx(0.154, abs=0.03)
    assert abs(np.mean(outside)) < 3.5 * 0.1 / np.sqrt(60)


def test_too_few_blocks_choose_nothing_and_arrays_have_to_fit() -> None:
    assert walk_forward(["a"], np.ones((5, 1)), np.arange(5)) is None
    assert walk_forward(["a"], np.ones((6, 1)), np.arange(6)) is not None
    with pytest.raises(ValueError, match="candidates"):
        walk_forward(["a", "b"], np.ones((5, 1)), np.arange(5))
