"""Watching a comparison that grows: one metric, fixed beforehand, by a confidence sequence over blocks of time.

plan (metric, stop rule) ─► differences.py ─► statistics/sequence.py ─► watching.py ─► `backtest watch`, `shadow`
"""
