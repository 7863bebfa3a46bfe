"""The exact budget: one rule, which every worker applies to one topic."""
