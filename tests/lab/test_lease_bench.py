"""The bench of the lease counts the times in which no worker publishes, the one that has not ended among them."""

from __future__ import annotations

from lab.bench.lease import gaps_in

HOLDER = "1.0 1\n5.0 0\n7.5 1\n9.0 0\n"


def test_gaps_are_the_times_in_which_nobody_says_that_it_publishes() -> None:
    assert gaps_in({"active-0": HOLDER}, began=2.0, ended=10.0) == [2.5, 1.0]
    assert gaps_in({"active-0": HOLDER, "active-1": "6.0 1\n7.0 0\n9.0 0\n"}, began=2.0, ended=10.0) == [1.0, 0.5, 1.0]
    assert gaps_in({"active-0": HOLDER, "active-1": "4.0 1\n"}, began=2.0, ended=10.0) == []
    assert gaps_in({"active-0": "1.0 1\n"}, began=2.0, ended=10.0) == []
