"""Backtests: recorded cases replayed with a changed prompt, paying only for the calls that change."""
