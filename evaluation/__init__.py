"""Evaluation of the verification: backtests, comparisons, shadow runs, judged cases, acceptance runs, statistics."""
