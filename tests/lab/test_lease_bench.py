"""The bench of the lease counts the times without an active publisher, the one that has not ended among them."""

from __future__ import annotations

from lab.bench.lease import gaps_in


def test_gaps_are_the_times_between_the_words_that_it_publishes() -> None:
    assert gaps_in("1.0 1\n5.0 0\n7.5 1\n9.0 0\n", began=2.0, ended=10.0) == [2.5, 1.0]
    assert gaps_in("1.0 1\n", began=2.0, ended=10.0) == []
