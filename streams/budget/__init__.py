"""The exact budget: one rule, folded by every worker from one topic."""
