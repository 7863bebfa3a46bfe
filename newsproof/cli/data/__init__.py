"""Commands that fill tables: memory and outcomes."""
