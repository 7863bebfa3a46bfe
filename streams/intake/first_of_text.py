"""Claims: which cases have a text, and which of them is the first. Decided only by the log, without any clock.

Partitions have no common order, so "first" is defined by the verdicts that cases received. A case whose verdict in the
log is "first" remains first. Among cases without a verdict, the one with the lowest (partition, offset) is first. Only
this case has to wait until the cases above it have their verdicts, because they may have asked before its opening was
in the log. So exactly one of all cases with a text is first, whenever and wherever they were opened. Two cases that ask
see each other, unless one received its verdict before the other was opened; then the log shows that verdict.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import Enum
from typing import NamedTuple

from streams.intake.index_rows import digest, index_rows
from streams.journal.fold_store import FollowingFold


class LoggedVerdict(Enum):
    """A case's verdict in the log: none yet, first, or not first."""

    NONE = 0
    FIRST = 1
    NOT_FIRST = 2


class Claim:
    """One case that claims a text, and its verdict in the log."""

    __slots__ = ("case_id", "owner", "place", "verdict")

    def __init__(self, case_id: str, place: tuple[int, int], owner: str, verdict: LoggedVerdict) -> None:
        self.case_id, self.place, self.owner, self.verdict = case_id, place, owner, verdict


class Verdict(NamedTuple):
    """``first_case`` None: the case itself is first, once the cases in ``waits_for`` have the verdict "not first"."""

    first_case: str | None
    waits_for: frozenset[str] = frozenset()


_LAST = (1 << 62, 0)


def decided(own: Claim | None, others: Iterable[Claim], only: Collection[str] | None = None) -> Verdict:
    """Return the verdict on a case, given its own claim and the ``others`` on the same text. ``only`` limits
    ``waits_for`` to cases of an earlier verdict. ``own`` None: the log does not hold the case yet."""
    if own is not None and own.verdict is LoggedVerdict.FIRST:
        return Verdict(None)
    place = _LAST if own is None else own.place
    rivals = [c for c in others if c.verdict is not LoggedVerdict.NOT_FIRST]
    firsts = [c for c in rivals if c.verdict is LoggedVerdict.FIRST] or [c for c in rivals if c.place < place]
    if firsts:
        return Verdict(min(firsts, key=lambda c: c.place).case_id)
    return Verdict(None, frozenset(c.case_id for c in rivals if only is None or c.case_id in only))


class Claims:
    """The claims of all texts; the rivals of one text in the order in which they were read."""

    def __init__(self, rows: FollowingFold | None = None) -> None:
        self._rows = index_rows() if rows is None else rows

    def __len__(self) -> int:
        return int(self._rows.row("SELECT count(DISTINCT text) FROM texts")[0])

    def add(self, text: str, case_id: str, place: tuple[int, int], at_ms: float, owner: str = "") -> None:
        """Add an opening with this text. Only cases of one ``owner`` are copies of each other."""
        key = digest(text)
        if self._rows.row("SELECT 1 FROM texts WHERE text = ? AND case_id = ?", key, case_id) is None:
            values = (key, case_id, *place, owner, at_ms)
            self._rows.write("INSERT INTO texts VALUES (NULL, ?, ?, ?, ?, ?, 0, ?)", *values)

    def is_undecided(self, case_id: str) -> bool:
        """Return whether the log has no verdict for this case yet."""
        return self._rows.row("SELECT 1 FROM texts WHERE case_id = ? AND verdict = 0", case_id) is not None

    def record_verdict(self, case_id: str, *, first: bool) -> None:
        """Record the verdict in the log. Only the first call for a case counts.

        A case that continued or ended without a verdict is recorded as well.
        """
        verdict = LoggedVerdict.FIRST if first else LoggedVerdict.NOT_FIRST
        self._rows.write("UPDATE texts SET verdict = ? WHERE case_id = ? AND verdict = 0", verdict.value, case_id)

    def judge(self, text: str, case_id: str, only: Collection[str] | None = None) -> Verdict:
        """Return the verdict on a case, given the claims read so far.

        ``only`` limits ``waits_for`` to cases of an earlier verdict.
        """
        asked = "SELECT case_id, partition, at, owner, verdict FROM texts WHERE text = ? ORDER BY number"
        claims = [
            Claim(case, (partition, at), owner, LoggedVerdict(verdict))
            for case, partition, at, owner, verdict in self._rows.rows.execute(asked, (digest(text),))
        ]
        own = next((c for c in claims if c.case_id == case_id), None)
        return decided(own, [c for c in claims if c is not own and (own is None or c.owner == own.owner)], only)

    def forget_before(self, at_ms: float) -> None:
        """Delete the texts that were opened before this time: they may be news again."""
        # The oldest row is the first of its text.
        asked = "SELECT text, at_ms FROM texts ORDER BY number LIMIT 1"
        while (oldest := self._rows.row(asked)) is not None and oldest[1] < at_ms:
            self._rows.write("DELETE FROM texts WHERE text = ?", oldest[0])
