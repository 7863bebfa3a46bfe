"""The record of published signals: every later change is named, and a stranger checks a proof without Newsproof."""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from schemas.errors import ConfigError
from schemas.topics import Topics
from streams.record.days import (
    Difference,
    differing_days,
    leaf_hash,
    path_of,
    proofs_of,
    publish_days,
    read_file,
    read_roots,
    revisions,
    tree_hash,
    verify,
)
from streams.record.roots import NO_DAY, DayRoot, encode
from tests.newsproof.signal_samples import as_published, signal
from tests.streams.memory_log import MemoryLog

pytestmark = pytest.mark.security
TOPICS = Topics("r.")
START = datetime(2026, 3, 1, 23, 0, tzinfo=UTC)
Written = tuple[int, int, dict[str, Any]]
"""Partition, append time (ms) and record."""
_spec = spec_from_file_location("check_proof", Path(__file__).parents[3] / "docs" / "check_proof.py")
assert _spec is not None and _spec.loader is not None
checker = module_from_spec(_spec)
_spec.loader.exec_module(checker)


def records(count: int = 40) -> list[Written]:
    """Signals in three partitions, one each half hour, with a second revision of each fifth; March 3 has none."""
    made = []
    for n in range(count):
        at = START + timedelta(minutes=30 * n) + (timedelta(days=2) if n > 30 else timedelta())
        one = signal(f"claim {n // 5 * 5 if n % 5 == 1 else n}", revision=1 + (n % 5 == 1), supersedes=None)
        made.append((n % 3, int(at.timestamp() * 1000), as_published(one, TOPICS)))
    return made


def log_of(written: Iterable[Written], roots: Iterable[DayRoot] = ()) -> MemoryLog:
    log = MemoryLog({TOPICS.signals: 3, TOPICS.record_roots: 1})
    for partition, ms, record in written:
        log.append(TOPICS.signals, partition, timestamp=ms, **record)
    for root in roots:
        log.append(TOPICS.record_roots, 0, value=encode(root))
    return log


async def publish(log: MemoryLog, folder: Path, now: datetime) -> list[str]:
    async def append(root: DayRoot) -> None:
        log.append(TOPICS.record_roots, 0, value=encode(root))

    return [file.root.day for file in await publish_days(log, TOPICS, folder, append, now=now)]


END = START + timedelta(days=5)


def test_the_tree_is_that_of_the_published_vectors() -> None:
    """Of Certificate Transparency's reference tests, which RFC 9162 keeps."""
    leaves = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
    roots = {
        0: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        1: "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        2: "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
        3: "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
        5: "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
        8: "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
    }
    hashes = [leaf_hash(bytes.fromhex(leaf)) for leaf in leaves]
    assert {n: tree_hash(hashes[:n]).hex() for n in roots} == roots


async def test_each_ended_day_is_published_once_and_a_lost_file_is_written_again(tmp_path: Path) -> None:
    log = log_of(records())
    midnight = datetime(2026, 3, 3, tzinfo=UTC)
    assert await publish(log, tmp_path, midnight + timedelta(minutes=14)) == ["2026-03-01"]
    assert await publish(log, tmp_path, midnight + timedelta(minutes=15)) == ["2026-03-02"]
    assert await publish(log, tmp_path, END) == ["2026-03-03", "2026-03-04", "2026-03-05"]
    assert await publish(log, tmp_path, END) == []
    counts = [root.signals for root in await read_roots(log, TOPICS)]
    assert (counts, sum(counts)) == ([2, 29, 0, 9, 0], 40)

    lost = path_of(tmp_path, "2026-03-02")
    before = lost.read_bytes()
    lost.unlink()  # as a crash between the topic and the file leaves it
    assert await publish(log, tmp_path, END) == ["2026-03-02"]
    assert lost.read_bytes() == before
    assert (await verify(log, TOPICS, tmp_path, since=None, until=None))[1] == []
    assert await differing_days(log, TOPICS) == []

    lost.unlink()
    shorter = log_of(records()[:-20], await read_roots(log, TOPICS))
    with pytest.raises(ConfigError, match="the log no longer gives the root that was published for 2026-03-02"):
        await publish(shorter, tmp_path, END)


def tampered(written: list[Written], rng: random.Random) -> tuple[list[Written], str, set[str]]:
    """Return the records with one change, its kind, and the signals that have to be named."""
    changed, kind = list(written), rng.choice(["changed", "removed", "added", "moved", "another day"])
    n = rng.randrange(len(written))
    partition, ms, record = written[n]
    name = record["key"].decode()
    match kind:
        case "changed":
            one = msgspec.json.decode(record["value"])
            one["confidence"] = round(one["confidence"] + 0.01, 2)
            changed[n] = (partition, ms, {**record, "value": msgspec.json.encode(one)})
        case "removed":
            del changed[n]
        case "added":
            one = signal(f"a late winner {rng.random()}")
            changed.insert(n, (partition, ms, as_published(one, TOPICS)))
            name = one.signal_id
        case "moved":
            other = rng.choice([i for i in range(len(written)) if i != n])
            changed[n], changed[other] = (partition, ms, written[other][2]), (*written[other][:2], record)
        case "another day":
            changed[n] = (partition, ms + 86_400_000, record)
            kind = "moved"
    return changed, kind, {name}


async def test_each_of_many_tamperings_is_named(tmp_path: Path) -> None:
    log, written = log_of(records()), records()
    await publish(log, tmp_path, END)
    roots, rng = await read_roots(log, TOPICS), random.Random(20260301)
    for _ in range(200):
        changed, kind, names = tampered(written, rng)
        other = log_of(changed, roots)
        _, found = await verify(other, TOPICS, tmp_path, since=None, until=None)
        assert (kind, names) <= (kind, {d.signal_id for d in found if d.kind == kind}), (kind, names, found)
        assert await differing_days(other, TOPICS) != []


async def test_a_changed_root_file_or_chain_is_told_and_a_copy_kept_elsewhere_wins(tmp_path: Path) -> None:
    log = log_of(records())
    await publish(log, tmp_path, END)
    roots = await read_roots(log, TOPICS)

    async def faults(roots: list[DayRoot], **how: Any) -> set[tuple[str, str]]:
        _, found = await verify(log_of(records(), roots), TOPICS, tmp_path, since=None, until=None, **how)
        return {(d.day, d.kind) for d in found}

    assert await faults([roots[0], *roots[2:]]) == {("2026-03-03", "chain")}
    forged = [roots[0], replace(roots[1], root="0" * 64), *roots[2:]]
    assert await faults(forged) == {("2026-03-02", "root"), ("2026-03-02", "chain")}
    copy = read_file(path_of(tmp_path, "2026-03-02"))
    assert await faults([], files=[copy]) == {("2026-03-02", "missing")}
    shorter = replace(copy, rows=copy.rows[1:])
    assert await faults(roots, files=[shorter]) == {("2026-03-02", "file"), ("2026-03-02", "added")}
    # A second root for a day replaces nothing.
    assert (await read_roots(log_of([], [*roots, replace(roots[1], root="0" * 64)]), TOPICS)) == roots


async def test_a_proof_holds_for_its_revision_and_root_alone(tmp_path: Path) -> None:
    log = log_of(records())
    await publish(log, tmp_path, END)
    file = read_file(path_of(tmp_path, "2026-03-02"))
    proven = 0
    found = [revision async for revision in revisions(log, TOPICS, "2026-03-02", "2026-03-02")]
    for proof in proofs_of(file, found).values():
        given = msgspec.json.decode(msgspec.json.encode(proof))
        assert checker.fault(given, file.root.root) is None
        assert checker.fault(given, read_file(path_of(tmp_path, "2026-03-01")).root.root) is not None
        for wrong in (
            {**given, "value": given["value"].replace("confirmed", "refuted")},
            {**given, "index": (given["index"] + 1) % len(file.rows)},
            {**given, "path": given["path"][:-1]},
            {**given, "path": [*given["path"], "00" * 32]},
            {**given, "row": {**given["row"], "offset": 7_000}},
        ):
            assert checker.fault(wrong, file.root.root) is not None
        proven += 1
    assert proven == file.root.signals == 29
    assert file.root.previous != NO_DAY
    assert [type(one) for one in await differing_days(log_of([], [file.root]), TOPICS)] == [Difference]
