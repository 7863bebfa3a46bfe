"""The record of published signals: a Merkle tree for each UTC day, each root chained to the day before.

A day's file and the topic ``record-roots`` hold what is published about a day. Neither holds a signal's text: a row holds
its SHA-256, so the text can be checked by anyone who has it.
"""

from __future__ import annotations

import hashlib

import msgspec

from schemas.ids import canonical_json
from schemas.topics import RecordCodec

VERSION = 1
NO_DAY = "0" * 64
"""``previous`` of the first day."""


class RecordRow(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """One revision on ``signals``: a leaf of its day's tree. ``sha256``: of the record's value; ``appended_ms``: since 1970."""

    partition: int
    offset: int
    appended_ms: int
    signal_id: str
    revision: int
    sha256: str

    @property
    def key(self) -> tuple[str, int]:
        """Signal and revision."""
        return self.signal_id, self.revision


class DayRoot(msgspec.Struct, frozen=True, kw_only=True, tag="newsproof.record_root"):
    """The root of one UTC day (``YYYY-MM-DD``) over its ``signals`` rows, in the order of partition and offset.

    ``root`` is the Merkle tree hash of RFC 9162. ``previous`` is the ``chain`` of the day before, and ``chain`` is
    :func:`chained` of all the others, so that no day can be changed without changing every later one.
    """

    day: str
    signals: int
    root: str
    previous: str
    chain: str
    version: int = VERSION


class DayFile(msgspec.Struct, frozen=True, kw_only=True):
    """The published file of one day: its root, and the rows that it is computed from."""

    root: DayRoot
    rows: tuple[RecordRow, ...]


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """The proof that a revision belongs to a day's root. ``value`` is the record's text, ``path`` the sibling hashes (hex)."""

    root: DayRoot
    row: RecordRow
    index: int
    path: tuple[str, ...]
    value: str


_codec: RecordCodec[DayRoot] = RecordCodec(DayRoot, "record_roots", tags="newsproof.record_", version=VERSION)
encode, decode, known = _codec.encode, _codec.decode, _codec.known


def chained(day: str, signals: int, root: str, previous: str) -> str:
    """Return the link from a day to the day before: SHA-256 of the canonical JSON of these four."""
    linked = {"day": day, "signals": signals, "root": root, "previous": previous}
    return hashlib.sha256(canonical_json(linked)).hexdigest()
