"""Benchmarks of what follows a topic or a source: the listener, the search of feeds, open streams of the page, watches."""
