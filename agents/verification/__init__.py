"""The steps of the news pipeline, one file each, but for ``plan`` (agents/planning) and ``retract`` (agents/retraction)."""
