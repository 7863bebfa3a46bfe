"""Watchers that are killed again and again, in virtual time: the whole of `lab bench watches`."""

from __future__ import annotations

import pytest

from lab.bench.feeds.watches import simulate


@pytest.mark.slow
def test_in_50_kills_each_of_1000_due_times_fires_once_and_opens_one_investigation() -> None:
    done = simulate(seed=7)
    assert done.held, done
    assert (done.due, done.kills, done.opened) == (1000, 50, 1000)
    assert done.passed_by > 1000  # the others came second
    assert done.late_s < 30
