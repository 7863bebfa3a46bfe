"""The planning of a round: what to look up next, the tools for it, and their answers."""
