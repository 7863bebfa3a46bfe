"""Landlock: which files this process, its threads and its children may still write and read, and no TCP connection.

The kernel enforces it on the process itself, without a privilege and for good: nothing that runs here later can take it
back. It takes 0.2 ms.

Source: https://docs.kernel.org/userspace-api/landlock.html (the numbers: ``linux/landlock.h``).
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from schemas.errors import ConfigError

__all__ = ["FILES_SINCE", "NETWORK_SINCE", "abi_version", "confine", "program_files"]

FILES_SINCE, NETWORK_SINCE = 1, 4
"""Versions of Landlock (ABI) that know files (Linux 5.13) and TCP connections (Linux 6.7)."""
# The same numbers on every architecture.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG, _PATH_BENEATH, _PR_SET_NO_NEW_PRIVS = 1, 1, 38
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE, _IOCTL_DEV = 1, 1 << 1, 1 << 2, 1 << 3, 1 << 14, 1 << 15
_OF_FILES = _WRITE_FILE | _READ_FILE | _TRUNCATE
_REMOVE_AND_MAKE = 0b1_1111_1111_0000
"""Remove a directory or a file; make a character device, directory, file, socket, pipe, block device or link."""
_REFER, _CONNECT_TCP = 1 << 13, 1 << 1


class _Ruleset(ctypes.Structure):
    _fields_ = [("handled_fs", ctypes.c_uint64), ("handled_net", ctypes.c_uint64)]


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("allowed", ctypes.c_uint64), ("parent_fd", ctypes.c_int32)]


def abi_version() -> int:
    """Return the version of Landlock that this kernel enforces, 0 for none."""
    if sys.platform != "linux":
        return 0
    answer: int = ctypes.CDLL(None).syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION_FLAG))
    return max(0, answer)


def confine(*, writable: Sequence[Path], readable: Sequence[Path]) -> int:
    """Let this process write only to these and read only these and those, files or all below a directory.

    Returns the version that enforces it, 0 for none. From version 4 it opens no TCP connection either; it starts no program.
    To be called before there are other threads: only threads that this one starts afterwards are held to it. What is open
    already stays open. Of ``readable``, what does not exist is left out.

    Raises:
        ConfigError: the kernel has Landlock and refuses this.
    """
    version = abi_version()
    if version < FILES_SINCE:
        return 0
    read = _READ_FILE | _READ_DIR
    # Moving between directories is refused altogether by version 1, which has no right for it.
    write = _WRITE_FILE | _REMOVE_AND_MAKE | (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    handled = read | write | _EXECUTE | (_IOCTL_DEV if version >= 5 else 0)
    network = _CONNECT_TCP if version >= NETWORK_SINCE else 0
    # Version 3 and below know the first field alone.
    ruleset = _call(_CREATE_RULESET, _Ruleset(handled, network), ctypes.c_size_t(16 if network else 8), 0)
    try:
        for path, rights in [(one, read | write) for one in writable] + [
            (one, read) for one in readable if one.exists()
        ]:
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
            allowed = rights if path.is_dir() else rights & _OF_FILES
            try:
                _call(_ADD_RULE, ruleset, _PATH_BENEATH, _PathBeneath(allowed, descriptor), 0)
            finally:
                os.close(descriptor)
        if ctypes.CDLL(None).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
            raise ConfigError(
                "the kernel refuses no_new_privs, so this process cannot be fenced: look at its log (dmesg)"
            )
        _call(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)
    return version


def _call(number: int, *arguments: object) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    handed = [ctypes.byref(one) if isinstance(one, ctypes.Structure) else one for one in arguments]
    result: int = libc.syscall(number, *handed)
    if result < 0:
        why = os.strerror(ctypes.get_errno())
        raise ConfigError(f"the kernel has Landlock and refuses to fence this process ({why}): look at its log (dmesg)")
    return result


def program_files() -> list[Path]:
    """Return what a program of ours reads: Python, its packages, our own modules, and what the system tells every process.

    Not ``/proc`` as a whole, where the environment of every other process of this user can be read, nor the checkout.
    """
    infra = Path(__file__).parent
    ours = [infra, infra.parent / "schemas"]
    system = [Path(one) for one in ("/usr", "/lib", "/lib64", "/etc", "/sys", "/dev/urandom", "/dev/random")]
    own = [
        Path("/proc/self"),
        *(Path("/proc") / one for one in ("cpuinfo", "meminfo", "stat", "loadavg", "vmstat", "sys")),
    ]
    return [Path(sys.prefix), Path(sys.base_prefix), *ours, *system, *own]
