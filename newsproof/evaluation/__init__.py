"""Judging the judgement: backtests, comparisons, shadow runs, evaluation, acceptance, and their statistics."""
