"""Audits: what the log and the published signals say, counted apart from everything that wrote them."""
