"""``newsproof shadow``: a candidate prompt beside the live one, on live traffic, within a budget of its own.

    journal ─► live.py ─► (a case has its signal) ─► run.py ─► runs.<run_id>, ClickHouse        never: signals

The engine and the topic are those of backtests: replies whose request is the live one are reused, others are asked for,
and what was paid for is on the run's own topic before it is used, so a restart pays nothing twice.
"""
