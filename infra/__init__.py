"""Adapters to the outside, settings, and servers that run on this machine."""
