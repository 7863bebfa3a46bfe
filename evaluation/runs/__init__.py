"""Runs: backtests of recorded cases and shadow runs of live ones, which pay only for the calls that a change causes."""
