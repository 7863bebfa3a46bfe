"""Signals of cases onto the topic ``signals``, exactly once."""
