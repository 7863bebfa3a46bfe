"""Days of the record: made from the log, published to ``record-roots`` and to files, and compared with the log again."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
from aiokafka import TopicPartition

from schemas.envelope import NewerSignalError, read_signal
from schemas.errors import ConfigError, ContractError
from schemas.ids import canonical_json
from schemas.signals import Signal
from schemas.topics import Topics
from streams.journal.log import Log, starts_since
from streams.record.roots import NO_DAY, DayFile, DayRoot, Proof, RecordRow, chained, known

SETTLED_AFTER = timedelta(minutes=15)
"""A day is published this long after its end: a transaction that began before midnight has ended by then."""
Append = Callable[[DayRoot], Awaitable[None]]
Kind = Literal["changed", "moved", "removed", "added"]


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One disagreement between what was published and the log. Without ``signal_id`` it is about the whole day."""

    day: str
    kind: Kind | Literal["root", "chain", "file", "missing"]
    what: str
    signal_id: str | None = None
    revision: int | None = None


class Revision(NamedTuple):
    """One revision on the log: its row, the signal, and the text of its record."""

    row: RecordRow
    signal: Signal
    value: str


def day_of(ms: int) -> str:
    """Return the UTC day of a time in ms since 1970."""
    return datetime.fromtimestamp(ms / 1000, UTC).date().isoformat()


def last_settled(now: datetime) -> str:
    """Return the latest day that may be published at this time (UTC)."""
    return ((now - SETTLED_AFTER).date() - timedelta(days=1)).isoformat()


def file_of(day: str, rows: Iterable[RecordRow], previous: str) -> DayFile:
    """Return what is published about a day with these rows."""
    ordered = tuple(sorted(rows))
    root = tree_hash(_leaves(ordered)).hex()
    link = chained(day, len(ordered), root, previous)
    return DayFile(root=DayRoot(day=day, signals=len(ordered), root=root, previous=previous, chain=link), rows=ordered)


def proofs_of(file: DayFile, revisions: Iterable[Revision]) -> dict[tuple[str, int], Proof]:
    """Return the proof of each of these revisions that is in the day, by signal and revision."""
    paths, places = inclusion_paths(_leaves(file.rows)), {row: index for index, row in enumerate(file.rows)}
    proofs = {}
    for row, _, value in revisions:
        if (index := places.get(row)) is not None:
            path = tuple(step.hex() for step in paths[index])
            proofs[row.key] = Proof(root=file.root, row=row, index=index, path=path, value=value)
    return proofs


def differences(published: Iterable[RecordRow], current: Iterable[RecordRow]) -> list[Difference]:
    """Return what was changed, moved, removed or added since: rows of published days against rows of the log."""
    old, new = list(published), list(current)
    gone = _by_key(set(old) - set(new))
    come = _by_key(set(new) - set(old))
    changes = []
    for key in sorted(gone.keys() | come.keys()):
        before, after = gone.get(key, []), come.get(key, [])
        for was, now in zip(before, after, strict=False):
            same = was.sha256 == now.sha256
            place = f"it is at partition {now.partition}, offset {now.offset}, {_time(now)}"
            what = (
                f"{place}, and was published at {_time(was)}"
                if same
                else f"its content differs from what was published at {_time(was)}"
            )
            changes.append(_difference(was, "moved" if same else "changed", what))
        changes += [
            _difference(r, "removed", f"it was published at {_time(r)} and is missing from the log")
            for r in before[len(after) :]
        ]
        changes += [
            _difference(r, "added", f"it is on the log at {_time(r)} and was not published")
            for r in after[len(before) :]
        ]
    return changes


def faults_of(file: DayFile) -> list[Difference]:
    """Return in what a published file contradicts itself."""
    again = file_of(file.root.day, file.rows, file.root.previous).root
    return [] if again == file.root else [_of_day(file.root, "file", "its root does not match its rows")]


def faults_of_chain(roots: Sequence[DayRoot]) -> list[Difference]:
    """Return the breaks in a chain of days, ascending: a changed link, or a day left out."""
    faults = []
    for before, after in zip((None, *roots), roots, strict=False):
        if after.chain != chained(after.day, after.signals, after.root, after.previous):
            faults.append(_of_day(after, "chain", "its chain hash does not match its root and the day before"))
        if before is not None and (_next(before.day), before.chain) != (after.day, after.previous):
            faults.append(_of_day(after, "chain", f"it does not link to the day published before it, {before.day}"))
    return faults


async def read_roots(log: Log, topics: Topics) -> list[DayRoot]:
    """Return the published roots by day, ascending. Of several for a day the first counts, so none can be replaced.

    Raises:
        NewerRecordError: newer code wrote one.
    """
    roots: dict[str, DayRoot] = {}
    async for _, records in log.replay(await log.bounds(topics.record_roots)):
        for record in records:
            if (root := known(record.value)) is not None:  # the audit counts others
                roots.setdefault(root.day, root)
    return [roots[day] for day in sorted(roots)]


async def revisions(log: Log, topics: Topics, since: str | None, until: str | None) -> AsyncIterator[Revision]:
    """Yield the revisions that publish wrote on the days ``since`` to ``until`` (None: first and last of the log).

    Raises:
        NewerSignalError: newer code published one.
    """
    spans: dict[TopicPartition, tuple[int, int]] = dict(await log.bounds(topics.signals, isolation="read_committed"))
    if since is not None:
        starts = await starts_since(log, topics.signals, _ms(since))
        spans = {tp: (min(starts[tp], end), end) for tp, (_, end) in spans.items()}
    async for _, records in log.replay(spans, isolation="read_committed"):
        for record in records:
            if (since or "") <= day_of(record.timestamp) <= (until or "9"):
                try:
                    signal, _ = read_signal(record)
                except NewerSignalError:
                    raise
                except ContractError:
                    continue  # no signal of ours: every reader ignores it, and the audit lists it
                yield Revision(_row(record, signal), signal, record.value.decode())


async def read_rows(log: Log, topics: Topics, since: str | None, until: str) -> dict[str, list[RecordRow]]:
    """Return day → rows of the log."""
    by_day: defaultdict[str, list[RecordRow]] = defaultdict(list)
    async for row, _, _ in revisions(log, topics, since, until):
        by_day[day_of(row.appended_ms)].append(row)
    return dict(by_day)


async def differing_days(log: Log, topics: Topics) -> list[Difference]:
    """Return every published day whose root the log no longer gives, and every break in the chain of days."""
    roots = await read_roots(log, topics)
    rows = await read_rows(log, topics, roots[0].day, roots[-1].day) if roots else {}
    return [
        *faults_of_chain(roots),
        *(fault for root in roots for fault in _faults_of_root(root, rows.get(root.day, ()))),
    ]


async def publish_days(log: Log, topics: Topics, directory: Path, append: Append, *, now: datetime) -> list[DayFile]:
    """Publish every ended day that is not published yet, days without signals included; return those files.

    A day's root goes to the topic first. A file that a crash left out is written by the next call.

    Raises:
        ConfigError: the log no longer gives the root that was published for a day without a file.
        OSError: a file cannot be written.
    """
    roots, until = await read_roots(log, topics), last_settled(now)
    unwritten = [root.day for root in roots if not path_of(directory, root.day).exists()]
    since = min(unwritten) if unwritten else _next(roots[-1].day) if roots else None
    rows = await read_rows(log, topics, since, until)
    if since is None:
        if not rows:
            return []
        since = min(rows)
    known = {root.day: root for root in roots}
    made, previous = [], next((root.chain for root in reversed(roots) if root.day < since), NO_DAY)
    day = since
    while day <= until:
        file = file_of(day, rows.get(day, ()), previous)
        if day not in known:
            await append(file.root)
        elif file.root != known[day]:
            raise ConfigError(
                f"the log no longer gives the root that was published for {day}, so the day's file cannot be written again: "
                "compare the log with a copy of that file, `newsproof record verify --root COPY`"
            )
        if not path_of(directory, day).exists():
            _write(path_of(directory, day), file)
            made.append(file)
        day, previous = _next(day), file.root.chain
    return made


async def verify(
    log: Log, topics: Topics, directory: Path, *, since: str | None, until: str | None, files: Sequence[DayFile] = ()
) -> tuple[list[DayRoot], list[Difference]]:
    """Compare published days with the log; return the days compared, and every difference.

    ``files``: copies from elsewhere, which count instead of those in ``directory``. With copies, only their days are
    compared, and the topic's root of such a day must be theirs.

    Raises:
        ConfigError: a file in ``directory`` cannot be read, or nothing was published for these days.
    """
    on_topic = await read_roots(log, topics)
    copies = {file.root.day: file for file in files}
    wanted = [
        root.day
        for root in on_topic
        if (since or "") <= root.day <= (until or "9") and (not copies or root.day in copies)
    ]
    lost = sorted(copies.keys() - set(wanted))
    if not wanted and not lost:
        raise ConfigError(
            "no day is published in this period: `newsproof record publish` publishes every day that has ended"
        )
    days = sorted({*wanted, *lost})
    rows = await read_rows(log, topics, days[0], days[-1])
    faults = faults_of_chain([root for root in on_topic if days[0] <= root.day <= days[-1]])
    known = {root.day: root for root in on_topic}
    compared, published, current = [], list[RecordRow](), list[RecordRow]()
    for day in days:
        path = path_of(directory, day)
        file = copies.get(day) or (read_file(path) if path.exists() else None)
        if (root := known.get(day)) is None:
            assert file is not None
            faults.append(_of_day(file.root, "missing", "the topic record-roots no longer has this day's root"))
            root = file.root
        elif file is not None and file.root != root:
            faults.append(_of_day(root, "root", "the root on the topic record-roots differs from the root in the file"))
        compared.append(root)
        if file is not None:
            faults += faults_of(file)
            published += file.rows
            current += rows.get(day, [])
        else:
            faults += _faults_of_root(root, rows.get(day, ()))
    return compared, faults + differences(published, current)


def read_file(path: Path) -> DayFile:
    """Return a published file.

    Raises:
        ConfigError: it cannot be read, or is no day's file.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=DayFile)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as exc:
        raise ConfigError(f"{path} is not a day's file as `newsproof record publish` writes it: {exc!s:.200}") from exc


def path_of(directory: Path, day: str) -> Path:
    """Return where a day's file is."""
    return directory / f"{day}.json"


def _write(path: Path, file: DayFile) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_bytes(msgspec.json.format(msgspec.json.encode(file), indent=1) + b"\n")
    unfinished.replace(path)


def _row(record: Any, signal: Signal) -> RecordRow:
    return RecordRow(
        partition=record.partition,
        offset=record.offset,
        appended_ms=record.timestamp,
        signal_id=signal.signal_id,
        revision=signal.revision,
        sha256=hashlib.sha256(record.value).hexdigest(),
    )


def _leaves(rows: Iterable[RecordRow]) -> list[bytes]:
    return [leaf_hash(canonical_json(row)) for row in rows]


def _by_key(rows: Iterable[RecordRow]) -> dict[tuple[str, int], list[RecordRow]]:
    by_key: defaultdict[tuple[str, int], list[RecordRow]] = defaultdict(list)
    for row in sorted(rows):
        by_key[row.key].append(row)
    return by_key


def _difference(row: RecordRow, kind: Kind, what: str) -> Difference:
    return Difference(day=day_of(row.appended_ms), kind=kind, what=what, signal_id=row.signal_id, revision=row.revision)


def _faults_of_root(root: DayRoot, rows: Iterable[RecordRow]) -> list[Difference]:
    if file_of(root.day, rows, root.previous).root.root == root.root:
        return []
    what = "the log gives another root than the published one: to list the signals, pass a copy of the day's file to --root"
    return [_of_day(root, "root", what)]


def _of_day(root: DayRoot, kind: Literal["root", "chain", "file", "missing"], what: str) -> Difference:
    return Difference(day=root.day, kind=kind, what=what)


def _time(row: RecordRow) -> str:
    return datetime.fromtimestamp(row.appended_ms / 1000, UTC).isoformat(sep=" ", timespec="milliseconds")


def _next(day: str) -> str:
    return (date.fromisoformat(day) + timedelta(days=1)).isoformat()


def _ms(day: str) -> int:
    return int(datetime.combine(date.fromisoformat(day), time(), UTC).timestamp() * 1000)


# The Merkle tree of RFC 9162, section 2.1, with SHA-256


def leaf_hash(data: bytes) -> bytes:
    """Return the hash of a leaf."""
    return hashlib.sha256(b"\x00" + data).digest()


def tree_hash(leaves: Sequence[bytes]) -> bytes:
    """Return the root over these leaf hashes; over none, the hash of nothing."""
    if len(leaves) < 2:
        return leaves[0] if leaves else hashlib.sha256().digest()
    split = _split(len(leaves))
    return _node(tree_hash(leaves[:split]), tree_hash(leaves[split:]))


def inclusion_paths(leaves: Sequence[bytes]) -> list[list[bytes]]:
    """Return for each leaf the hashes that, with it, give the root; from the leaf upwards."""
    if len(leaves) < 2:
        return [[] for _ in leaves]
    split = _split(len(leaves))
    halves = leaves[:split], leaves[split:]
    roots = [tree_hash(half) for half in halves]
    return [
        [*path, other] for half, other in zip(halves, reversed(roots), strict=True) for path in inclusion_paths(half)
    ]


def _split(count: int) -> int:
    """Return the largest power of two below ``count``."""
    return 1 << (count - 1).bit_length() - 1


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()
