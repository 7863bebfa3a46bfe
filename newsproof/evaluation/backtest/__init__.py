"""Backtest: recorded cases, decided again under a changed prompt, at the price of what really changed."""
