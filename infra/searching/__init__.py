"""Adapters to search providers."""
