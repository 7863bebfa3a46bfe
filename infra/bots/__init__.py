"""Adapters to what bots act on: signed webhooks, freqtrade, chat channels, and a book on paper."""
