"""Adapters to model providers, and what their tokens cost."""
