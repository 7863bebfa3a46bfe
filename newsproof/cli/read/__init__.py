"""Commands that read signals, cases and tables."""
