"""The worker slot's file: records which heads were running when the process died, to find a step that kills it.

A memory-mapped table with one entry per running head. Setting and clearing an entry is a copy in memory, without a
system call. The page cache outlives the process; if the operating system dies, no step is to blame. At startup,
entries that were not cleared become crash counts, which are stored in a text file beside it.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import re
from contextlib import AbstractContextManager
from pathlib import Path

from infra.kafka.topics import KafkaAddress, members_of
from schemas.errors import ConfigError

HEAD_BYTES = 36
"""An event id: a UUID in text form."""
PLACES = 65_536
"""More heads than a worker can have running. Any beyond are not recorded."""
_FREE = b"\0" * HEAD_BYTES


_TABLE_BYTES = HEAD_BYTES * (PLACES + 1)
_EXECUTING = HEAD_BYTES * PLACES
"""The last entry: the head whose step code runs now.

If it is set, no other head can have killed the process.
"""


class WorkerSlot:
    """One worker slot on this machine. ``crashes``: how often the process died while a head was running, per head.

    Raises:
        ConfigError: another process on this machine holds the slot.
    """

    def __init__(self, directory: Path, slot: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._counts_path = directory / f"slot-{slot}.crashes"
        self._fd = os.open(directory / f"slot-{slot}.running", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            os.close(self._fd)
            raise ConfigError(
                f"worker slot {slot!r} is taken by another process: give this worker its own WORKER_SLOT"
            ) from exc
        os.ftruncate(self._fd, _TABLE_BYTES)
        self._table = mmap.mmap(self._fd, _TABLE_BYTES)
        self.crashes = self._read_counts()
        self._write_counts()
        self._table[:] = bytes(_TABLE_BYTES)
        self._free = list(range(PLACES - 1, -1, -1))
        self._place: dict[str, int] = {}

    def executing(self, head_id: str) -> AbstractContextManager[None]:
        """Record that this head's step code runs, until the block ends."""
        return _Execution(self._table, head_id)

    def started(self, head_id: str) -> None:
        """Record that a step runs at this head."""
        if head_id in self._place or not self._free:
            return
        place = self._place[head_id] = self._free.pop()
        at = place * HEAD_BYTES
        self._table[at : at + HEAD_BYTES] = head_id.encode()[:HEAD_BYTES].ljust(HEAD_BYTES, b"\0")

    def ended(self, head_id: str) -> None:
        """Record that nothing runs at this head any longer."""
        place = self._place.pop(head_id, None)
        if place is not None:
            at = place * HEAD_BYTES
            self._table[at : at + HEAD_BYTES] = _FREE
            self._free.append(place)

    def forget(self, head_id: str) -> None:
        """Delete the crash count of a head that moved on."""
        if self.crashes.pop(head_id, None) is not None:
            self._write_counts()

    def close(self) -> None:
        """Record a clean shutdown: nothing was running."""
        self._table[:] = bytes(_TABLE_BYTES)
        self._table.close()
        os.close(self._fd)

    def _read_counts(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        if self._counts_path.exists():
            for line in self._counts_path.read_text(errors="replace").splitlines():
                head, _, number = line.partition(" ")
                counts[head] = int(number) if number.isdigit() else 0
        table = self._table[:]
        executed = table[_EXECUTING:] != _FREE
        for place in (PLACES,) if executed else range(PLACES):
            raw = table[place * HEAD_BYTES : (place + 1) * HEAD_BYTES]
            if raw != _FREE:
                head = raw.rstrip(b"\0").decode(errors="replace")
                counts[head] = counts.get(head, 0) + 1
        return {h: n for h, n in counts.items() if n}

    def _write_counts(self) -> None:
        beside = self._counts_path.with_suffix(".new")
        beside.write_text("".join(f"{h} {n}\n" for h, n in self.crashes.items()))
        beside.replace(self._counts_path)


class _Execution:
    __slots__ = ("_head_id", "_table")

    def __init__(self, table: mmap.mmap, head_id: str) -> None:
        self._table, self._head_id = table, head_id

    def __enter__(self) -> None:
        self._table[_EXECUTING:] = self._head_id.encode()[:HEAD_BYTES].ljust(HEAD_BYTES, b"\0")

    def __exit__(self, *_: object) -> None:
        self._table[_EXECUTING:] = _FREE


async def refuse_taken_slot(address: KafkaAddress, group: str, slot: str) -> None:
    """Refuse to start while a live worker elsewhere holds this slot's static membership.

    Raises:
        ConfigError: a live worker holds it; the text names the slot and what to change.
    """
    # The broker names a static member after its instance id: "<instance id>-<UUID>".
    holder = re.compile(re.escape(f"{group}-{slot}-") + "[0-9a-f-]{36}")
    if any(holder.fullmatch(member) for member in await members_of(address, group)):
        raise ConfigError(f"a worker with WORKER_SLOT={slot!r} is in the group {group}: give this one its own slot")
