"""Adapters to external services, settings, and embedded servers."""
