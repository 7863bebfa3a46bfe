"""Deterministic stand-ins for outside services, with the texts that they search."""
