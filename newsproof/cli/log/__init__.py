"""Commands that read the log or write to it."""
