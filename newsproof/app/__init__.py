"""Composition of the product from its settings, its servers and processes, and what all commands share."""
