"""Hostile input: a seeded generator of records that nobody should send, and the run that sends them and counts."""
