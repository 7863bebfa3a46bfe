"""The steps of the research chat, one file each; ``agents.research.turn`` is their case."""
