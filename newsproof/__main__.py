"""``python -m newsproof``."""

from newsproof.cli import main

main()
