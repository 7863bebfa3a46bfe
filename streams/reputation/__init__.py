"""Reputation of sources: how often each is first, copied, borne out and taken back, in stories of the last 90 days."""
