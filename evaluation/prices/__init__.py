"""Prices after a run's signals: what a trader would have earned, and how prices moved around them; docs/profit.md."""
