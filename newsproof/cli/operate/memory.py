"""``newsproof memory rebuild``: rebuilds the table that recall reads, from the log.

The new rows go into a second table, which then replaces the old one in one step, so recall never sees a partial memory.
Rows that the sink wrote meanwhile are read from the log after the exchange. Only one rebuild may run at a time.

Vectors that a case paid for are in the log. Vectors that rebuilds of earlier versions paid for are only in the table,
and are copied.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import msgspec
import typer

from infra.clickhouse.columns import MEMORY
from infra.kafka.topics import KafkaAddress
from infra.models.embeddings.hashing import EMBEDDING_MODEL
from newsproof.app.invocation import Invocation
from newsproof.app.servers import servers, with_data
from newsproof.app.sheet import json_line, say_result
from newsproof.cli.options import JsonReport, command, commands
from schemas.printable import counted
from schemas.topics import Topics

if TYPE_CHECKING:
    from aiokafka import TopicPartition

    from agents.core.registry import Registry
    from infra.clickhouse.client import ClickHouse
    from streams.journal.fold import JournalFold
    from streams.journal.log import Bounds
    from streams.journal.reader import JournalReader

app = commands()
group = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Rebuild the memory of past cases from the log.")
app.add_typer(group, name="memory")
TABLE = "memories"
BESIDE = "memories_rebuilt"
ROWS_AT_ONCE = 5_000
_ROW = ", ".join(MEMORY)
_COMPARED = f"""
SELECT countIf(old.row = new.row), countIf(old.row != new.row), countIf(old.row IS NULL), countIf(new.row IS NULL)
FROM (SELECT embedding_model, case_id, cityHash64({_ROW}) AS row FROM {BESIDE} FINAL WHERE run_id = 'live') AS old
FULL OUTER JOIN (SELECT embedding_model, case_id, cityHash64({_ROW}) AS row FROM {TABLE} FINAL WHERE run_id = 'live') AS new
USING (embedding_model, case_id)
SETTINGS join_use_nulls = 1
"""
_CARRIED = f"""
INSERT INTO {BESIDE} ({_ROW})
SELECT {", ".join(f"paid.{name}" if name.startswith("embedding") else f"made.{name}" for name in MEMORY)}
FROM (SELECT * FROM {BESIDE} FINAL WHERE run_id = 'live' AND embedding_model = '{EMBEDDING_MODEL}') AS made
INNER JOIN (SELECT case_id, embedding_model, embedding FROM {TABLE} FINAL WHERE run_id = 'live') AS paid USING (case_id)
WHERE (paid.embedding_model, case_id) NOT IN (SELECT embedding_model, case_id FROM {BESIDE} WHERE run_id = 'live')
  AND position(paid.embedding_model, ':') > 0
"""


@group.callback()
def memory() -> None:
    """Rebuild the memory of past cases from the log."""


@command(group, "rebuild", interrupted="recall keeps using `memories`; repeat the command")
async def rebuild_memory(invocation: Invocation, as_json: JsonReport = False) -> None:
    """Rebuild the table `memories` from the log.

    The new table replaces the old one in one step, so recall, workers and the sink keep running. It has the rows that the sink
    would write, so a second run changes nothing. The report counts the rows that did not change.

    After a change of EMBEDDING_PROVIDER, past cases have no vectors of the new provider and are not recalled by it.

    Raises:
        NewsproofError: a server does not respond, or the log holds records of a newer version.
    """
    from newsproof.app.composition import address_of, clickhouse_of, topics_of
    from newsproof.app.processes.supervisor import prepare_tables

    settings = await with_data(invocation.settings(), given=invocation.data_dir_given)
    async with servers(settings) as found:
        at = found.applied_to(settings)
        await prepare_tables(at)
        async with clickhouse_of(at) as client:
            report = await rebuild(address_of(at), topics_of(at), client)
    json_line(report) if as_json else print_rebuilt(report)


class Rebuilt(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a rebuild: records read; memories that are the same, changed, added and removed.

    A case with vectors of two models counts as two memories.
    ``unreadable`` records have no row, neither here nor from the sink, which stored them as dead letters.
    """

    records: int
    memories: int
    same: int
    changed: int
    added: int
    removed: int
    unreadable: int
    seconds: float


async def rebuild(
    address: KafkaAddress, topics: Topics, client: ClickHouse, *, registry: Registry | None = None
) -> Rebuilt:
    """Fill ``memories`` from the journal. Idempotent: a second run leaves exactly the same rows."""
    from agents.graphs import verification
    from streams.journal.log import KafkaLog
    from streams.journal.reader import JournalReader

    began = time.monotonic()
    await client.define(f"DROP TABLE IF EXISTS {BESIDE}")
    await client.define(f"CREATE TABLE {BESIDE} AS {TABLE}")
    await client.command(f"INSERT INTO {BESIDE} SELECT * FROM {TABLE} WHERE run_id != 'live'")
    reader = JournalReader(KafkaLog(address), topics.cases)
    log = _Rows(reader, registry or verification(), await reader.begin())
    await log.fill(client, BESIDE, reader.bounds)
    await client.command(_CARRIED)
    await client.define(f"EXCHANGE TABLES {TABLE} AND {BESIDE}")
    # A running insert went into the old table. Its records are in the log by now, and are read here.
    await log.fill(client, TABLE, await reader.log.bounds(topics.cases))
    same, changed, added, removed = (await client.query(_COMPARED)).rows[0]
    await client.define(f"DROP TABLE IF EXISTS {BESIDE}")
    return Rebuilt(
        records=log.records,
        memories=same + changed + added,
        same=same,
        changed=changed,
        added=added,
        removed=removed,
        unreadable=log.unreadable,
        seconds=round(time.monotonic() - began, 2),
    )


def print_rebuilt(done: Rebuilt) -> None:
    say_result(
        f"{counted(done.memories, 'memory')} built from {counted(done.records, 'record')} in {done.seconds:g} s: {done.same:,} unchanged, "
        f"{done.changed:,} changed, {done.added:,} added, {done.removed:,} removed because the log does not have them."
    )
    if done.unreadable:
        say_result(f"{counted(done.unreadable, 'record')} could not be read: see `newsproof dlq list`.")


class _Rows:
    """The journal from its start, folded into rows by the sink's own code."""

    def __init__(self, reader: JournalReader, registry: Registry, folds: dict[TopicPartition, JournalFold]) -> None:
        from streams.sink.journal import Progress, SinkJournal

        self._log = reader.log
        self._journals = {
            tp: SinkJournal(fold, registry, Progress(through=fold.position - 1)) for tp, fold in folds.items()
        }
        self.records = self.unreadable = 0

    async def fill(self, client: ClickHouse, table: str, bounds: Bounds) -> None:
        """Read to the ends of these bounds, and insert the memories of the records."""
        rows: list[Any] = []
        spans = {tp: (journal.fold.position, bounds[tp][1]) for tp, journal in self._journals.items()}
        async for tp, records in self._log.replay(spans):
            made, bad = self._journals[tp].rows(records)
            self.records += len(records)
            self.unreadable += len(bad)
            rows += made.get("memories", ())
            if len(rows) >= ROWS_AT_ONCE:
                await client.insert(table, MEMORY, rows)
                rows = []
        await client.insert(table, MEMORY, rows)
