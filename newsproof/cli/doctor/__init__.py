"""``newsproof doctor``: checks what is configured, reachable and missing."""
