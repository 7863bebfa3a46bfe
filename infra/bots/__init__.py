"""Adapters to the destinations of bots: signed webhooks, freqtrade, chat channels, and a paper book."""
