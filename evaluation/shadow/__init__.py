"""``newsproof shadow``: runs a candidate prompt on live traffic beside the live one, with its own budget.

    journal ─► live.py ─► (a case has its signal) ─► run.py ─► runs.<run_id>, ClickHouse        never: signals

Uses the engine and topic of backtests: a reply is reused when its request equals the live one, others are requested.
Paid calls are written to the run's own topic before use, so a restart pays for nothing twice.
"""
