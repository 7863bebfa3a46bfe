"""What only its owner may look into: data directories, and the files in them that hold a password."""

from __future__ import annotations

import os
import stat
from pathlib import Path

__all__ = ["UMASK", "make_owner_only", "write_owner_only"]

UMASK = 0o077
"""Of every child: what it makes is its owner's alone."""


def make_owner_only(directory: Path) -> None:
    """Make the directory where there is none, and let nobody but its owner in, when that is us.

    What lies in it stays as it is. Another user's directory is left alone, and so is one that is shared on purpose (sticky,
    as /tmp is).
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = directory.stat()
    if found.st_uid == os.geteuid() and not found.st_mode & stat.S_ISVTX:
        directory.chmod(0o700)


def write_owner_only(file: Path, text: str) -> None:
    """Write the file whole, in place of an earlier one; at no moment may another user open it, or anybody read half of it."""
    written = file.with_name(f"{file.name}.{os.getpid()}.new")
    written.unlink(missing_ok=True)
    with os.fdopen(os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as opened:
        opened.write(text)
    written.replace(file)
