"""Owner-only permissions of data directories, and of the files in them that hold a password."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
from pathlib import Path

from schemas.errors import ConfigError

UMASK = 0o077
"""Umask of every child process: only the owner can access what it creates."""

_COME = "run this as the user who created it, or choose another data directory"
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
"""Errors of a file system without hard links, such as exFAT and some SMB servers."""
_SECRET = re.compile(r"[A-Za-z0-9_-]{20,}")
"""The form of ``secrets.token_urlsafe``. No other content of a file is ever sent to a server as a password."""


def make_owner_only(directory: Path) -> None:
    """Create the directory if it is missing, and set its mode to 0700 if it belongs to the current user.

    Its contents stay unchanged. These directories keep their mode: another user's; one shared on purpose (sticky, such
    as /tmp, or setgid); the root and its direct children; the home and working directories and all their parents.

    Raises:
        ConfigError: the directory cannot be created, or its mode cannot be changed.
    """
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        status, place = directory.stat(), directory.resolve()
        shared = status.st_mode & (stat.S_ISVTX | stat.S_ISGID) or len(place.parts) <= 2
        needed = any(directory_in_use.is_relative_to(place) for directory_in_use in (Path.cwd(), Path.home().resolve()))
        if status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) != 0o700 and not (shared or needed):
            directory.chmod(0o700)
    except (OSError, RuntimeError) as exc:  # RuntimeError: there is no home directory
        raise ConfigError(
            f"{directory} cannot be created or closed to other users ({exc}): choose a data directory of your own, on "
            "a file system that stores permissions (NEWSPROOF_DATA_DIR)"
        ) from exc


def kept_secret(file: Path) -> str | None:
    """Return the secret that an earlier start wrote to the file, None if there is no file.

    Sets the file's mode to 0600.

    Raises:
        ConfigError: the file is a link, belongs to another user, or holds something else. The content of a file that
            somebody else prepared is not sent anywhere.
    """
    try:
        opened = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise ConfigError(f"{file} cannot be read ({exc.strerror}): {_COME}") from exc
    with os.fdopen(opened, "rb") as opened_file:
        status = os.fstat(opened)
        if status.st_uid != os.geteuid() or not stat.S_ISREG(status.st_mode):
            raise ConfigError(f"{file} is not a file that you own: {_COME}")
        if stat.S_IMODE(status.st_mode) != 0o600:
            os.fchmod(opened, 0o600)
        secret = opened_file.read(4096).strip().decode("ascii", "replace")
    if not _SECRET.fullmatch(secret):
        raise ConfigError(
            f"{file} holds no secret that Newsproof made (20 or more letters, digits, _ and -): delete it, and the next start "
            "makes another one"
        )
    return secret


def made_secret(file: Path) -> str:
    """Return the secret that the file holds; the first call writes a new one, with mode 0600.

    Raises:
        ConfigError: as :func:`kept_secret`.
        OSError: it cannot be written.
    """
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    while (secret := kept_secret(file)) is None:
        with contextlib.suppress(FileExistsError):
            _make(file)
    return secret


def _make(file: Path) -> None:
    """Write a new secret. Raises FileExistsError if there is a file already."""
    secret = f"{secrets.token_urlsafe(24)}\n".encode()
    written = file.with_name(f"{file.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        _write_new(written, secret)
        # A link, not a rename: if two processes start at once, the second one uses the secret of the first.
        os.link(written, file)
    except FileExistsError:
        raise
    except OSError as exc:
        if exc.errno not in _NO_LINKS:
            raise
        _write_new(file, secret)
    finally:
        written.unlink(missing_ok=True)


def _write_new(file: Path, content: bytes) -> None:
    made = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(made, content)
    finally:
        os.close(made)


def write_owner_only(file: Path, text: str) -> None:
    """Replace the file atomically with mode 0600: other users can never open it, and no reader sees half of it."""
    written = file.with_name(f"{file.name}.{os.getpid()}.new")
    written.unlink(missing_ok=True)
    with os.fdopen(os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as opened:
        opened.write(text)
    written.replace(file)
