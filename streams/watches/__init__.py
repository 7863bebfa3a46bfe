"""Watches: investigations that come again, by one rule, which every worker applies to one topic."""
