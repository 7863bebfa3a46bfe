"""The slot's own small file: which heads were running when the process died, so that a step that kills it is found.

An append-only text file, written before a step starts and after it ends (about 2 µs each; the page cache outlives the
process, and an operating system that dies is nobody's suspect step). At start it is folded into crash counts.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from schemas.errors import ConfigError

_COMPACT_BYTES = 4 * 1024 * 1024


class SlotFile:
    """One worker slot on this machine. ``crashes`` maps a head to how often the process died while it was running.

    Raises:
        ConfigError: when another process on this machine holds the slot.
    """

    def __init__(self, directory: Path, slot: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._path = directory / f"slot-{slot}.log"
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            os.close(self._fd)
            raise ConfigError(
                f"worker slot {slot!r} is taken by another process: give this worker its own WORKER_SLOT"
            ) from exc
        self._running: set[str] = set()
        self.crashes = self._fold()
        self._written = 0
        self._compact()

    def started(self, head_id: str) -> None:
        """Note that a step runs at this head."""
        if head_id not in self._running:
            self._running.add(head_id)
            self._write(f"+{head_id}\n")

    def ended(self, head_id: str) -> None:
        """Note that nothing runs at this head any more."""
        if head_id in self._running:
            self._running.discard(head_id)
            self._write(f"-{head_id}\n")

    def forget(self, head_id: str) -> None:
        """Drop the crash count of a head that moved on."""
        if self.crashes.pop(head_id, None) is not None:
            self._write(f"={head_id} 0\n")

    def close(self) -> None:
        """End in order: nothing was running."""
        self._running.clear()
        self._compact()
        os.close(self._fd)

    def _fold(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        running: set[str] = set()
        for line in self._path.read_text(errors="replace").splitlines():
            mark, rest = line[:1], line[1:]
            if mark == "+":
                running.add(rest)
            elif mark == "-":
                running.discard(rest)
            elif mark == "=" and " " in rest:
                head, number = rest.rsplit(" ", 1)
                counts[head] = int(number) if number.isdigit() else 0
        for head in running:
            counts[head] = counts.get(head, 0) + 1
        return {h: n for h, n in counts.items() if n}

    def _write(self, line: str) -> None:
        self._written += os.write(self._fd, line.encode())
        if self._written > _COMPACT_BYTES:
            self._compact()

    def _compact(self) -> None:
        lines = [f"={h} {n}\n" for h, n in self.crashes.items()] + [f"+{h}\n" for h in self._running]
        os.ftruncate(self._fd, 0)
        self._written = os.write(self._fd, "".join(lines).encode()) if lines else 0
