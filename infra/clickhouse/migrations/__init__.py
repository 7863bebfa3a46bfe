"""Numbered SQL files. A package, so that an installed wheel carries them."""
