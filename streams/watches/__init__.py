"""Watches: recurring investigations, by one rule, which every worker applies to one topic."""
