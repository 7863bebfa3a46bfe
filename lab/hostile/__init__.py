"""Hostile input: a seeded generator of malformed and forged records, and the run that sends and accounts for them."""
