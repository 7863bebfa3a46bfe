"""``newsproof doctor``: what is configured, reachable and missing."""
