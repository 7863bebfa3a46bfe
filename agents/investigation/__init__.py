"""The steps of an investigation, one file each. It shares the steps of a round with the news pipeline (agents/planning)."""
