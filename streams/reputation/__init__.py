"""Reputation of sources: how often each is first, copied, corroborated and retracted, in stories of the last 90 days."""
