"""Child processes of the embedded servers: start, readiness check, orderly stop, no orphans.

Guarantees, on Linux and macOS:

- The child ends when its parent ends, however that happens (``guard.py``): within milliseconds of a SIGKILL. Only a
  SIGKILL of the watcher itself before the parent's end could leave the child behind.
- The child has a session of its own, so Ctrl-C reaches only the parent, which then stops the child in an orderly way.
- The child also holds the lock of its data directory, so the lock is free exactly when nothing uses the directory.
- Only the owner can access the directory and what the child writes, including its log (``infra/owner_only.py``).
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from infra.owner_only import UMASK, make_owner_only
from schemas.errors import ConfigError

_GUARD = Path(__file__).with_name("guard.py")
_POLL_S = 0.02
_LOG_LIMIT_BYTES = 8 * 1024 * 1024
"""A longer log is rotated at the next start (one generation, suffix ``.1``)."""
FULL_BYTES = 4 * 1024 * 1024
"""A disk with less free space than this counts as full: Kafka's index files alone take 1 MiB each."""


def free_ports(count: int) -> list[int]:
    """Return ``count`` different free TCP ports of 127.0.0.1, chosen by the system."""
    with contextlib.ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


def why_not_bound(port: int, host: str = "127.0.0.1") -> OSError | None:
    """Return the error that a server would get now on ``port`` of ``host`` (an IPv4 address or name); None if none."""
    with socket.socket() as probe:
        # As servers do, so that closing connections of a former server do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as exc:
            return exc
        return None


def port_owner(port: int) -> str:
    """Return the process that listens on a TCP port of this machine, for an error text: "PID 123 (nginx)".

    Without root, the system hides other users' processes, and macOS hides all: the text is then "another process".
    """
    import psutil

    with contextlib.suppress(psutil.Error, OSError):
        for connection in psutil.net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port and connection.pid is not None:
                return f"PID {connection.pid} ({psutil.Process(connection.pid).name()})"
    return "another process"


def disk_is_full(directory: Path) -> bool:
    """Return whether the disk of a directory has less than ``FULL_BYTES`` free; False if that is unknown."""
    try:
        return shutil.disk_usage(directory).free < FULL_BYTES
    except OSError:
        return False  # The directory is gone, or its disk does not respond: callers report their own failure.


class DirectoryLock:
    """Exclusive use of a data directory, across processes.

    The lock belongs to an open file (``flock``). Pass ``fd`` to the child that uses the directory: the lock is then
    held until that child, too, has ended, even if its parent was killed.
    """

    def __init__(self, directory: Path, *, what: str) -> None:
        """``what`` names the user of the directory in error texts, such as "Kafka"."""
        self.directory = directory
        self.what = what
        self._fd: int | None = None

    @property
    def fd(self) -> int:
        """The file descriptor that holds the lock. Raises RuntimeError if the lock is not held."""
        if self._fd is None:
            raise RuntimeError(f"The lock of {self.directory} is not held: call acquire() first.")
        return self._fd

    def acquire(self, *, patience_s: float = 0.5) -> None:
        """Take the lock; create the directory, for its owner only, if it is missing. Idempotent.

        Blocks for up to ``patience_s`` seconds, because the child of a parent that was just killed may hold the lock
        for some milliseconds more.

        Raises:
            ConfigError: another process, or another lock object in this process, uses the directory.
        """
        if self._fd is not None:
            return
        make_owner_only(self.directory)
        path = self.directory / "in-use.lock"
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline = time.monotonic() + patience_s
        while self._fd is None:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._fd = fd
            except OSError as exc:
                if time.monotonic() < deadline:
                    time.sleep(_POLL_S)
                    continue
                owner = os.pread(fd, 32, 0).decode("ascii", "replace").strip() or "unknown"
                os.close(fd)
                raise ConfigError(
                    f"{self.what} already runs on {self.directory} (started by process {owner}). "
                    "Stop that one first, or choose another data directory."
                ) from exc
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Release this process's hold. A running child that inherited ``fd`` keeps the directory locked."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


class _Guard:
    """The watcher process of one child, and this process's ends of its two pipes (see ``guard.py``)."""

    def __init__(self) -> None:
        parent_end, self._held = os.pipe()
        program_watched, self.program_end = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_GUARD), str(parent_end), str(program_watched)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(parent_end, program_watched),
                start_new_session=True,
            )
        except BaseException:
            os.close(self._held)
            os.close(self.program_end)
            raise
        finally:
            os.close(parent_end)
            os.close(program_watched)

    def watch(self, pid: int) -> None:
        """Send the watcher the pid of the program to kill when this process ends."""
        os.write(self._held, b"%d\n" % pid)
        os.close(self.program_end)
        self.program_end = -1

    def dismiss(self) -> None:
        """End the watcher, after the child was reaped or if the child never started."""
        if self.program_end >= 0:
            os.close(self.program_end)
        else:
            with contextlib.suppress(BrokenPipeError):
                os.write(self._held, b"ended\n")
        os.close(self._held)
        self._process.wait()


class ChildProcess:
    """A program that runs as a child process, with its output in a log file. Safe to use from any event loop."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        log_file: Path,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        inherits: Sequence[str] | None = None,
        stdin: bytes = b"",
        keep_fds: Sequence[int] = (),
    ) -> None:
        """Configure the child; nothing runs yet.

        ``env`` is added to the environment variables that the child inherits: those named in ``inherits``, by default
        all. ``stdin`` is the child's standard input (at most 64 KiB). ``keep_fds`` stay open in the child (the ``fd``
        of a ``DirectoryLock``). Standard output and error are appended to ``log_file``.
        """
        self.name = name
        self.command = list(command)
        self.log_file = log_file
        self._cwd = cwd
        self._env = dict(env or {})
        self._inherits = inherits
        self._stdin = stdin
        self._keep_fds = tuple(keep_fds)
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: _Guard | None = None
        self._log_start = 0

    @property
    def pid(self) -> int:
        """The process id of the program itself, not of a wrapper. Raises RuntimeError before the start."""
        if self._process is None:
            raise RuntimeError(f"{self.name} has not been started.")
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def returncode(self) -> int | None:
        """The exit status as ``subprocess`` reports it (negative: the signal); None while the child runs."""
        return self._process.poll() if self._process is not None else None

    def start(self) -> None:
        """Start the program. Raises RuntimeError if it is already running, OSError if it cannot start."""
        if self.running:
            raise RuntimeError(f"{self.name} is already running (PID {self.pid}).")
        self.kill()  # cleans up after an earlier run that ended by itself
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        if self.log_file.exists() and self.log_file.stat().st_size > _LOG_LIMIT_BYTES:
            self.log_file.replace(self.log_file.with_name(self.log_file.name + ".1"))
        names = os.environ if self._inherits is None else self._inherits
        inherited = {name: os.environ[name] for name in names if name in os.environ}
        with os.fdopen(os.open(self.log_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab") as log:
            self._log_start = log.tell()
            self._guard = _Guard()
            try:
                self._process = subprocess.Popen(
                    self.command,
                    stdin=subprocess.PIPE if self._stdin else subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    cwd=self._cwd,
                    env={**inherited, **self._env},
                    pass_fds=(self._guard.program_end, *self._keep_fds),
                    start_new_session=True,
                    umask=UMASK,
                )
                self._guard.watch(self._process.pid)
                if self._process.stdin is not None:
                    # It fits into the pipe, so this does not block; wait_until detects a child that has ended.
                    with contextlib.suppress(BrokenPipeError), self._process.stdin as stdin:
                        stdin.write(self._stdin)
            except BaseException:
                self.kill()
                raise

    async def wait_until(self, ready: Callable[[], Awaitable[bool]], *, timeout_s: float, poll_s: float = 0.05) -> None:
        """Return when ``ready()`` returns True. ``ready`` must not raise and must bound its own time.

        On failure or cancellation the child is killed, so that no half-started program is left behind.

        Raises:
            ConfigError: the child ended, or was not ready within ``timeout_s`` seconds; the text contains the last
                lines of its log.
        """
        deadline = time.monotonic() + timeout_s
        try:
            while True:
                if not self.running:
                    raise ConfigError(self._failure(f"exited with status {self.returncode} during its start"))
                if await ready():
                    return
                if time.monotonic() > deadline:
                    raise ConfigError(self._failure(f"was not ready within {timeout_s:g} s"))
                await asyncio.sleep(poll_s)
        except BaseException:
            self.kill()
            raise

    async def stop(self, *, timeout_s: float = 20.0) -> int | None:
        """Send SIGTERM, and SIGKILL after ``timeout_s`` seconds; return the exit status.

        None if the child was never started. When this returns, the child has ended.
        """
        process = self._process
        if process is None:
            return None
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            await self.wait(timeout_s=timeout_s)
        except TimeoutError:
            pass  # Killed below.
        finally:
            self.kill()
        return process.returncode

    async def wait(self, *, timeout_s: float | None = None) -> int | None:
        """Wait for the child to end; return its exit status. Raises TimeoutError after ``timeout_s`` seconds."""
        async with asyncio.timeout(timeout_s):
            # Polled, because a child watcher would tie the child to the event loop that started it.
            while self.running:  # noqa: ASYNC110
                await asyncio.sleep(_POLL_S)
        return self.returncode

    def kill(self) -> None:
        """SIGKILL the child's process group and reap the child. Does nothing if it has ended."""
        process = self._process
        if process is not None and process.poll() is None:
            # Not reaped yet, so the group id is still the child's. (macOS: EPERM if all are zombies.)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if self._guard is not None:
            self._guard.dismiss()
            self._guard = None

    def log_tail(self, lines: int = 20) -> str:
        """Return the last lines that the child logged in this run."""
        try:
            with self.log_file.open("rb") as log:
                log.seek(self._log_start)
                text = log.read()[-64 * 1024 :].decode("utf-8", "replace")
        except OSError:
            return ""
        return "\n".join(text.splitlines()[-lines:])

    def _failure(self, what: str) -> str:
        tail = self.log_tail() or "(the log is empty)"
        if disk_is_full(self.log_file.parent) or "No space left on device" in self.log_tail(1000):
            # The log may not mention it, because there was no space for that either.
            return (
                f"{self.name} cannot write because the disk of {self.log_file.parent} is full: free some space, then start again "
                f"({self.name} {what}; its log: {self.log_file})"
            )
        return f"{self.name} {what}. The end of its log, {self.log_file}:\n{tail}"
