"""What a hint calls the command: as the user started it, on the data directory that this call was given.

Texts say ``newsproof COMMAND``, whoever prints them asks here.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path

_COMMAND = re.compile(r"(?<![\w./-])newsproof (?=[a-z])")


class _Given:
    data_dir: Path | None = None
    env_file: Path | None = None


GIVEN = _Given()
"""The options of this process's command line that a hint repeats; set once they are parsed."""


def command_name(data_dir: Path | None = None) -> str:
    """Return ``newsproof`` for the installed command, and the checkout's ``run`` where that (or ``-m newsproof``) started it.

    With the data directory and the file of settings that this call was given, so that what is suggested finds the same
    log; ``data_dir`` is another one to name.
    """
    started = Path(sys.argv[0]).absolute()
    script = started.parents[1] / "run" if started.name == "__main__.py" else None
    words = ["newsproof"]
    if script is not None and script.exists():
        words = ["./run" if Path.cwd() == script.parent else str(script)]
    directory = data_dir or GIVEN.data_dir or os.environ.get("NEWSPROOF_DATA_DIR")
    if directory:
        words += ["--data-dir", str(directory)]
    if GIVEN.env_file is not None:
        words += ["--env-file", str(GIVEN.env_file)]
    return shlex.join(words)


def as_started(text: str) -> str:
    """Return a text of ours with the commands that it names as the user types them. Not for text of others."""
    return _COMMAND.sub(lambda _found: f"{command_name()} ", text)
