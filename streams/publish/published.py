"""The contents of ``signals``, stored on the worker's disk: a new publisher reads only records since its last read.

Only committed records are folded, in order. Memory holds the revisions published since the last read, and the
journal events that will be read again. The positions of all others are looked up when one of their revisions is due.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from aiokafka import TopicPartition

from infra.late_log import log_of
from schemas import envelope as wire
from schemas.envelope import Publication, read_publication
from schemas.errors import ContractError
from streams.journal.fold_store import FoldStore, StoredFold, beside_the_loop, version_of
from streams.journal.log import Log

FILE = "published.sqlite"
_TABLES = """
CREATE TABLE places (signal BLOB PRIMARY KEY, revision INTEGER, partition INTEGER, at INTEGER) WITHOUT ROWID;
CREATE TABLE causes (partition INTEGER, at INTEGER, cause TEXT, PRIMARY KEY (partition, at, cause)) WITHOUT ROWID;
CREATE TABLE journal (partition INTEGER PRIMARY KEY, through INTEGER NOT NULL, causes_from INTEGER NOT NULL)
"""
"""``journal``: the newest published event of each partition, and the offset below which causes were deleted."""
_STANDS = """
INSERT INTO places VALUES (?, ?, ?, ?) ON CONFLICT (signal) DO UPDATE
SET revision = excluded.revision, partition = excluded.partition, at = excluded.at WHERE excluded.revision > revision
"""
_THROUGH = """
INSERT INTO journal VALUES (?, ?, 0) ON CONFLICT (partition) DO UPDATE SET through = max(through, excluded.through)
"""
_CAUSES_FROM = """
INSERT INTO journal VALUES (?, -1, ?) ON CONFLICT (partition) DO UPDATE SET causes_from = max(causes_from, excluded.causes_from)
"""
_AT_ONCE = 2000
"""Records per transaction of the store, about 40 ms in a thread beside the event loop."""


class Place(NamedTuple):
    """Revision number, partition and offset of a signal's latest revision."""

    revision: int
    partition: int
    offset: int


class Published:
    """The contents of ``signals``. ``causes``: its journal events that will be read again. For one task at a time."""

    def __init__(self, directory: Path | None, signals: str, journal: str) -> None:
        """``directory``: the worker slot's; None keeps everything in memory.

        Raises:
            ConfigError: as for :class:`FoldStore`.
        """
        self.causes: set[str] = set()
        self.through: dict[int, int] = {}
        self._ignored = 0
        self._signals, self._journal = signals, journal
        self._store = FoldStore(directory, FILE)
        self._fold: StoredFold
        self._positions: dict[TopicPartition, int] = {}
        self._recent: dict[str, Place] = {}

    async def load(self, of: Log, positions: Mapping[int, int]) -> int:
        """Read new records up to the end that subscribers see; return how many foreign records were ignored.

        ``positions``: the offset from which each journal partition will be read.

        Raises:
            KafkaError: the broker does not respond.
            sqlite3.Error: the store cannot be read or written.
        """
        spans = await of.bounds(self._signals, isolation="read_committed")
        self._fold = self._store.fold("published", version=version_of(__file__, wire.__file__), tables=_TABLES)
        self._positions = await self._fold.begin(of, self._signals, spans)
        gone = dict(self._fold.rows.execute("SELECT partition, causes_from FROM journal").fetchall())
        if any(positions.get(partition, 0) < offset for partition, offset in gone.items()):
            log_of(__name__).warning("the journal will be read from before the stored signals; they are read again")
            await beside_the_loop(self._fold.clear)
            self._positions = {}
        ignored = await self._read(of, spans, positions)
        self.through = dict(self._fold.rows.execute("SELECT partition, through FROM journal WHERE through >= 0"))
        self.causes = {cause for (cause,) in self._fold.rows.execute("SELECT cause FROM causes")}
        return ignored

    async def follow(self, of: Log, positions: Mapping[int, int]) -> int:
        """Read again as :meth:`load` does, if anything was published since."""
        if not self._recent:
            return 0
        ignored = await self._read(of, await of.bounds(self._signals, isolation="read_committed"), positions)
        self._recent = {id: place for id, place in self._recent.items() if not self._is_read(place)}
        return ignored

    def place(self, signal_id: str) -> Place | None:
        """Return the position of the latest revision; None if nothing was published."""
        if (recent := self._recent.get(signal_id)) is not None:
            return recent
        asked = "SELECT revision, partition, at FROM places WHERE signal = ?"
        row = self._fold.rows.execute(asked, (_key(signal_id),)).fetchone()
        return None if row is None else Place(*row)

    def revision(self, signal_id: str) -> int:
        """Return the number of the latest revision; 0 if there is none."""
        place = self.place(signal_id)
        return 0 if place is None else place.revision

    def publish(self, signal_id: str, place: Place) -> None:
        """Record a revision that this process publishes. Its offset is -1 until the broker returns it."""
        self._recent[signal_id] = place

    def read_through(self, partition: int, offset: int) -> None:
        """Record the offset of a published journal record, if it is the newest."""
        self.through[partition] = max(self.through.get(partition, -1), offset)

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    def reset(self) -> None:
        """Delete the stored contents, damaged or not."""
        self._store.reset()

    def _is_read(self, place: Place) -> bool:
        return 0 <= place.offset < self._positions.get(TopicPartition(self._signals, place.partition), 0)

    async def _read(
        self, of: Log, spans: Mapping[TopicPartition, tuple[int, int]], positions: Mapping[int, int]
    ) -> int:
        before = self._ignored
        tail = {tp: (self._positions.get(tp, first), end) for tp, (first, end) in spans.items()}
        async for tp, records in of.replay(tail, isolation="read_committed", batch=_AT_ONCE):
            await beside_the_loop(partial(self._take, tp, records, positions))
            self._positions[tp] = records[-1].offset + 1
        await beside_the_loop(partial(self._forget, positions))
        return self._ignored - before

    def _take(self, tp: TopicPartition, records: Sequence[Any], positions: Mapping[int, int]) -> None:
        publications = list(self._publications(records))
        causes = [
            (p.journal_partition, p.journal_offset, p.cause_id)
            for _, p in publications
            if p.journal_topic == self._journal and p.journal_offset >= positions.get(p.journal_partition, 0)
        ]
        through: dict[int, int] = {}
        for _, p in publications:
            through[p.journal_partition] = max(through.get(p.journal_partition, -1), p.journal_offset)
        with self._store.writing() as rows:
            rows.executemany(_STANDS, ((_key(p.signal_id), p.revision, tp.partition, at) for at, p in publications))
            rows.executemany("INSERT OR IGNORE INTO causes VALUES (?, ?, ?)", causes)
            rows.executemany(_THROUGH, through.items())
            self._fold.reach(tp, records[-1].offset + 1, records[-1])

    def _publications(self, records: Sequence[Any]) -> Iterable[tuple[int, Publication]]:
        for record in records:
            try:
                yield record.offset, read_publication(record)
            except ContractError as exc:
                self._ignored += 1
                if self._ignored & (self._ignored - 1) == 0:  # the 1st, 2nd, 4th …
                    log_of(__name__).warning(
                        "ignored a record on the signals topic", why=str(exc), so_far=self._ignored
                    )

    def _forget(self, positions: Mapping[int, int]) -> None:
        # By cause, not by the highest offset named: a record that names a false offset hides only itself.
        with self._store.writing() as rows:
            for partition, offset in positions.items():
                rows.execute("DELETE FROM causes WHERE partition = ? AND at < ?", (partition, offset))
                rows.execute(_CAUSES_FROM, (partition, offset))


def _key(signal_id: str) -> bytes:
    return hashlib.blake2b(signal_id.encode(), digest_size=16).digest()
