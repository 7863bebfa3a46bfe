"""Benchmarks of starts: a worker after many cases, and commands."""
