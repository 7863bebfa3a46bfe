"""The chaos harness: runs a whole installation under injected faults, then audits its log."""
