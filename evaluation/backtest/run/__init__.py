"""Backtest runs: plan, cost limit, topic and tables."""
