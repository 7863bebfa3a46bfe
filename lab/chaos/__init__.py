"""The chaos harness: a whole installation under faults, and what the log says of it afterwards."""
