"""The steps of a research chat, one file each; :mod:`agents.research.turn` is their case."""
