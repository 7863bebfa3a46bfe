"""The steps of an investigation, one file each, but for those that it shares with the news pipeline (agents/planning)."""
