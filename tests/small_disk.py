"""A disk that a test may fill."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 MiB in memory, if this user may mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ("mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(disk))
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this user may not mount a file system")
    yield disk
    subprocess.run(("umount", "--lazy", str(disk)), check=True)


def fill(filler: Path) -> None:
    """Write this file until its disk is full."""
    with suppress(OSError), filler.open("wb", buffering=0) as lines:
        while lines.write(bytes(1024 * 1024)):
            pass
