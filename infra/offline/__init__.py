"""Deterministic replacements for external services, with the texts that they search."""
