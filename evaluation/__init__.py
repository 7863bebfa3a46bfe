"""Evaluation of the verification: backtests, comparisons, shadow runs, labels, statistics."""
