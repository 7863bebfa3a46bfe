"""The steps of the news pipeline, one file each, except ``plan`` (agents/planning) and ``retract`` (agents/retraction)."""
