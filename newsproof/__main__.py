"""``python -m newsproof``."""

from newsproof.cli.main import main

main()
