"""The data directory: checks that it is usable and its disk has space, and stores the result of the last audit."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import shutil
import tempfile
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from infra.embedded.child import FULL_BYTES
from infra.owner_only import make_owner_only, write_owner_only
from schemas.errors import ConfigError

if TYPE_CHECKING:
    from infra.settings import Settings

_MB = 1024 * 1024
_LOOK_EVERY_S = 5.0
_ELSE = "or choose another directory (--data-dir, NEWSPROOF_DATA_DIR)"

FreeBytes = Callable[[Path], int]


def free_bytes(directory: Path) -> int:
    """Return the free space for this user on a directory's disk, in bytes."""
    return shutil.disk_usage(directory).free


def refuse_unusable_directory(settings: Settings, *, free: FreeBytes = free_bytes) -> None:
    """Create the data directory for its owner only, if it is missing, and check that servers can work in it.

    Raises:
        ConfigError: it is a file, cannot be created or written, or its disk has less space than NEWSPROOF_MIN_FREE_MB.
    """
    directory, least_mb = settings.newsproof_data_dir, settings.newsproof_min_free_mb
    try:
        if directory.exists() and not directory.is_dir():
            raise ConfigError(f"the data directory {directory} is a file: remove it, {_ELSE}")
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as exc:
        raise ConfigError(
            f"the data directory {directory} cannot be created ({exc.strerror}): correct that, {_ELSE}"
        ) from exc
    left_mb = free(directory) // _MB
    try:
        with tempfile.TemporaryFile(dir=directory) as probe:
            probe.write(bytes(4096))
    except OSError as exc:
        if exc.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise ConfigError(
                f"the data directory {directory} is not writable ({exc.strerror}): make it writable, {_ELSE}"
            ) from exc
        raise ConfigError(f"the disk of the data directory {directory} is full: free some space, {_ELSE}") from exc
    if left_mb < least_mb:
        raise ConfigError(
            f"the disk of the data directory {directory} has {left_mb} MB free, but starting needs {least_mb} MB "
            f"(NEWSPROOF_MIN_FREE_MB): free some space, {_ELSE}"
        )
    make_owner_only(directory)


def remove_empty(directories: Iterable[Path]) -> None:
    """Remove the directories that exist and are empty, in this order."""
    for path in directories:
        with contextlib.suppress(OSError):
            path.rmdir()


class RoomWatch:
    """Reports when the data directory's disk is short of space, full or unreadable, and when it has space again."""

    def __init__(self, settings: Settings, *, free: FreeBytes = free_bytes) -> None:
        self._directory = settings.newsproof_data_dir
        self._least_mb = settings.newsproof_min_free_mb
        self._free = free
        self._stood = "well"

    def look(self) -> str | None:
        """Return the message, if anything changed since the last check."""
        why, left = "", 0
        try:
            left = self._free(self._directory)
        except OSError as exc:
            why = str(exc.strerror)
        left_mb = left // _MB
        stands = "unknown" if why else "full" if left < FULL_BYTES else "short" if left_mb < self._least_mb else "well"
        if stands == self._stood:
            return None
        stood, self._stood = self._stood, stands
        if stands == "unknown":
            return (
                f"The free space on the disk of {self._directory} is unknown ({why}). Check that the directory exists and its disk "
                "responds. Newsproof continues as far as it can."
            )
        if stands == "full":
            return (
                f"The disk of {self._directory} is full ({left_mb} MB free). Kafka cannot write, so no news is accepted and all "
                "cases wait. Free some space: Newsproof then resumes by itself."
            )
        if stands == "short":
            return (
                f"The disk of {self._directory} has {left_mb} MB free, less than {self._least_mb} MB (NEWSPROOF_MIN_FREE_MB). "
                "Free some space: once it is full, no news is accepted and all cases wait."
            )
        return f"The disk of {self._directory} has enough space{'' if stood == 'unknown' else ' again'} ({left_mb} MB free)."

    async def run(self, say: Callable[[str], None]) -> None:
        """Check until cancelled."""
        while True:
            if (warning := self.look()) is not None:
                say(warning)
            await asyncio.sleep(_LOOK_EVERY_S)


def running_elsewhere(directory: Path) -> list[Path]:
    """Return the other data directories on which this user now runs a pipeline with an embedded Kafka."""
    import psutil

    directories = set()
    for process in psutil.process_iter(["cmdline"]):
        if (process.info["cmdline"] or [])[-3:] != ["-m", "newsproof", "sink"]:
            continue
        try:
            given = process.environ()
        except psutil.Error:
            continue
        if given.get("KAFKA_EMBEDDED_PASSWORD_FILE"):
            directories.add(Path(given.get("NEWSPROOF_DATA_DIR", "")))
    return sorted(directories - {directory.absolute()})


class LastAudit(msgspec.Struct, frozen=True):
    """The audit's end (UTC), and the number of violations of each guarantee, including those with 0."""

    at: datetime
    broken: dict[str, int]


def keep_audit(directory: Path, broken: dict[str, int], at: datetime) -> None:
    """Store this result in place of the previous one. A missing directory is not created.

    Raises:
        OSError: it cannot be written.
    """
    if directory.is_dir():
        write_owner_only(_file(directory), msgspec.json.encode(LastAudit(at, broken)).decode())


def last_audit(directory: Path) -> LastAudit | None:
    """Return the last stored result; None if there is no readable one."""
    try:
        return msgspec.json.decode(_file(directory).read_bytes(), type=LastAudit)
    except (OSError, msgspec.MsgspecError):
        return None


def _file(directory: Path) -> Path:
    return directory / "audit.json"
