"""ClickHouse queries and inserts of labels."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from evaluation.labels.cases import KnownCase
from evaluation.labels.file import Label
from evaluation.labels.judging import LabelledJudgement
from infra.clickhouse.client import ClickHouse

_COLUMNS = ("source", "version", "case_id", "truth", "note", "labelled_at")
_CASES = """
SELECT case_id, max(news) AS source, max(external) AS external_id
FROM
(
    SELECT case_id, source AS news, external_id AS external FROM news WHERE run_id = 'live'
    UNION ALL
    SELECT case_id, '' AS news, '' AS external FROM v_run_cases
)
GROUP BY case_id
"""
_JUDGEMENTS = """
SELECT case_id, story_id, verdict, acted, confidence, truth, toUnixTimestamp64Milli(knowable_at) / 1000 FROM v_judgement_on_labels
WHERE run_id = {run:String} ORDER BY case_id, repeat
"""
_SOURCES = """
SELECT source, count() AS labels, countIf(truth = 'true') AS said_true, countIf(truth = 'false') AS said_false,
       countIf(truth = 'partly') AS said_partly, countIf(truth = 'unknown') AS said_unknown,
       max(ingested_at) AS imported_at
FROM v_labels GROUP BY source ORDER BY source
"""


class LabelSource(msgspec.Struct, frozen=True, kw_only=True):
    """What one source says: its number of labels, by truth. ``imported_at`` is UTC."""

    source: str
    labels: int
    said_true: int
    said_false: int
    said_partly: int
    said_unknown: int
    imported_at: datetime


async def known_cases(client: ClickHouse) -> list[KnownCase]:
    """Return every case of the log and of the backtests."""
    return [KnownCase(*row) for row in (await client.query(_CASES)).rows]


async def keep(client: ClickHouse, labels: Sequence[tuple[Label, str]]) -> dict[str, int]:
    """Write labels with their case ids. Return, by source, how many labels of an earlier import they replace.

    The labels of a source are those of its last import alone. One insert of one block: all of it is there, or nothing.
    """
    before = {one.source: one.labels for one in await sources(client)}
    # Counted, not read from a clock: a clock that was set back must not let an older import win.
    version = int((await client.query("SELECT max(version) FROM labels")).rows[0][0]) + 1
    await client.insert(
        "labels",
        _COLUMNS,
        [(one.source, version, case_id, one.truth, one.note, one.labelled_at) for one, case_id in labels],
    )
    return {source: before[source] for source in sorted({one.source for one, _ in labels}) if source in before}


async def sources(client: ClickHouse) -> list[LabelSource]:
    """Return what each source says, by name."""
    return [LabelSource(**row) for row in (await client.query(_SOURCES)).dicts()]


async def forget(client: ClickHouse, source: str) -> int:
    """Delete the labels of one source, of all its imports; return how many counted. Complete on return."""
    asked = {"source": source}
    counted = await client.query("SELECT count() FROM v_labels WHERE source = {source:String}", asked)
    await client.query("DELETE FROM labels WHERE source = {source:String}", asked)
    return int(counted.rows[0][0])


async def read_judgements(client: ClickHouse, run: str) -> tuple[list[LabelledJudgement], int]:
    """Return a run's judgements of labelled cases, and the number of all its judgements."""
    rows: list[tuple[Any, ...]] = (await client.query(_JUDGEMENTS, {"run": run})).rows
    counted = await client.query(
        "SELECT count() FROM v_run_cases WHERE run_id = {run:String} AND has_signal", {"run": run}
    )
    return [LabelledJudgement(c, s, v, bool(a), p, t, at) for c, s, v, a, p, t, at in rows], int(counted.rows[0][0])
