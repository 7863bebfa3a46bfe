"""Benchmarks of readers of a topic or a source: the listener, the search of feeds, the page's streams, watches, bots."""
