"""What a hint calls the command: as the user started it. Texts say ``newsproof COMMAND``, whoever prints them asks here."""

from __future__ import annotations

import re
import sys
from pathlib import Path

_COMMAND = re.compile(r"(?<![\w./-])newsproof (?=[a-z])")


def command_name() -> str:
    """Return ``newsproof`` for the installed command, and the checkout's ``run`` where that (or ``-m newsproof``) started it."""
    started = Path(sys.argv[0]).absolute()
    script = started.parents[1] / "run" if started.name == "__main__.py" else None
    if script is None or not script.exists():
        return "newsproof"
    return "./run" if Path.cwd() == script.parent else str(script)


def as_started(text: str) -> str:
    """Return a text of ours with the commands that it names as the user types them. Not for text of others."""
    return _COMMAND.sub(lambda _found: f"{command_name()} ", text)
