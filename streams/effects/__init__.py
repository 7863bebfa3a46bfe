"""Effects: what steps ask of the world, performed once, paid for, bounded and recorded."""
