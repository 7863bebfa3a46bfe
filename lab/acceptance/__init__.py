"""``./run acceptance``: messages of every kind through the whole pipeline, with targets from docs/verification.md."""
