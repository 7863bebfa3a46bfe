"""Environments of their own for programs that tests compare ours with. The first run installs each."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from infra.embedded.kafka.jars import default_cache_dir

VECTORBT = "vectorbt==1.2.0"
"""About a minute and 700 MB."""


def environment_with(*packages: str) -> Path:
    """Return the folder of the programs of an environment with these pinned packages, installed once per machine."""
    place = default_cache_dir() / "-".join(one.replace("==", "-") for one in packages)
    python, ready = place / "bin" / "python", place / "ready"
    if not ready.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", place], check=True)
        quiet = ("--quiet", "--disable-pip-version-check", "--no-input")
        subprocess.run([python, "-m", "pip", "install", *quiet, *packages], check=True)
        ready.touch()
    return place / "bin"
