"""Evaluation of the verification: replays, backtests, shadow runs, comparisons, labels, prices, statistics."""
