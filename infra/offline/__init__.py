"""Deterministic stand-ins for external services, with the texts that they search."""
