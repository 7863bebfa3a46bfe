"""Version of the code: the release, and a hash of everything on which steps' decisions depend."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

VERSION = "0.1.0"
"""Equal to ``project.version`` in pyproject.toml; a test compares them."""

_DECIDING = Path(__file__).resolve().parents[2] / "agents"


def deciding_files() -> list[Path]:
    """Return the files whose content and paths make the code version: every source of ``agents``."""
    return sorted(_DECIDING.rglob("*.py"))


@lru_cache(maxsize=1)
def code_version() -> str:
    """Return ``RELEASE+HASH``: 12 hex digits over the sources of ``agents``, which identify the steps in a snapshot."""
    digest = hashlib.sha256()
    for path in deciding_files():
        digest.update(path.relative_to(_DECIDING).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return f"{VERSION}+{digest.hexdigest()[:12]}"
