"""``newsproof record`` and ``newsproof memory``: what is made of the log: a record of published signals that nobody can edit
unnoticed, and the table that recall reads.
"""

from __future__ import annotations

import time
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from infra.clickhouse.columns import MEMORY
from infra.kafka.topics import KafkaAddress, ensure_topics
from infra.models.embeddings.hashing import EMBEDDING_MODEL
from newsproof.app import exits
from newsproof.app.data_access import LogToRead, database, log_to_read, open_log
from newsproof.app.invocation import Invocation, parse_span
from newsproof.app.servers import servers, with_data
from newsproof.app.sheet import Columns, Sheet, Unit, json_line, json_lines, say_result, write_page
from newsproof.cli.options import JsonLines, JsonReport, argument, command, commands, option
from schemas.errors import ConfigError
from schemas.prices import HORIZONS_S
from schemas.printable import counted
from schemas.signals import Signal
from schemas.topics import Topics
from streams.record.roots import DayRoot, Proof, encode

if TYPE_CHECKING:
    from aiokafka import TopicPartition

    from agents.core.registry import Registry
    from infra.clickhouse.client import ClickHouse
    from newsproof.report.track_record import TrackRecord
    from streams.journal.fold import JournalFold
    from streams.journal.log import Bounds
    from streams.journal.reader import JournalReader


app = commands()
record = typer.Typer(
    help="Publish, verify and prove a record of all signals: one Merkle tree a day (docs/record.md).",
    no_args_is_help=True,
)
app.add_typer(record, name="record")

Folder = Annotated[Path, option("Folder of the days' files.", "--folder")]
From = Annotated[str | None, option("First UTC day, as YYYY-MM-DD.", "--from")]
To = Annotated[str | None, option("Last UTC day, inclusive.", "--to")]
RECORD = Path("record")


@command(record, "publish")
async def publish_days(invocation: Invocation, folder: Folder = RECORD, as_json: JsonLines = False) -> None:
    """Publish every UTC day that has ended.

    A day's root goes to the topic record-roots, its rows go to FOLDER/YYYY-MM-DD.json.

    Put the folder where others keep copies, such as a public git repository. Whoever can write to the log can also write
    another record, but cannot change those copies.
    """
    from streams.journal.log import KafkaLog
    from streams.record.days import publish_days as publish

    async with open_log(invocation) as log:
        at = log.settings
        # An installation of an older version lacks the topic.
        await ensure_topics(log.address, log.topics, partitions=at.topic_partitions, replication=at.topic_replication)
        async with log.address.producer(acks="all", enable_idempotence=True) as producer:

            async def append(root: DayRoot) -> None:
                await producer.send_and_wait(log.topics.record_roots, encode(root), key=root.day.encode(), partition=0)

            made = await publish(KafkaLog(log.address), log.topics, folder, append, now=datetime.now(UTC))
    if as_json:
        return json_lines([file.root for file in made])
    for file in made:
        say_result(f"{file.root.day}  {counted(file.root.signals, 'revision'):>16}  {file.root.root}")
    if not made:
        say_result(
            "Nothing to publish: every day that has ended is published. A day can be published 15 minutes after it ends (UTC)."
        )


@command(record)
async def verify(
    invocation: Invocation,
    since: From = None,
    until: To = None,
    root: Annotated[
        list[Path] | None,
        option(
            "A copy of a day's file that was kept elsewhere. Compares only the days of the copies. Repeatable.",
            "--root",
        ),
    ] = None,
    folder: Folder = RECORD,
    as_json: JsonReport = False,
) -> int:
    """Compare the log with the published record.

    Lists each signal that was changed, moved, removed or added.

    Exit status 1 if anything differs.
    """
    from streams.journal.log import KafkaLog
    from streams.record.days import read_file
    from streams.record.days import verify as compare

    first, last = _day(since, "--from"), _day(until, "--to")
    files = [read_file(path) for path in root or []]
    async with log_to_read(invocation) as log:
        days, differences = await compare(
            KafkaLog(log.address), log.topics, folder, since=first, until=last, files=files
        )
    if as_json:
        json_line({"days": len(days), "signals": sum(day.signals for day in days), "differences": differences})
    elif differences:
        columns: Columns = {
            "day": "day",
            "what": "kind",
            "signal": lambda difference: difference.signal_id or "–",
            "revision": ("revision", Unit(lambda revision: str(revision or "–"))),
            "how": "what",
        }
        Sheet.of(
            differences,
            columns,
            title=f"{counted(len(differences), 'difference')} between the log and the published record",
        ).print()
    else:
        say_result(
            f"The log matches the published record: {counted(sum(day.signals for day in days), 'revision')} on "
            f"{counted(len(days), 'day')}, {days[0].day} to {days[-1].day}."
        )
    return exits.FINDING if differences else exits.OK


@command(record)
async def prove(
    invocation: Invocation,
    signal_id: Annotated[str, argument("The signal's id.")],
    revision: Annotated[int | None, option("Its revision. Default: the latest published one.", min=1)] = None,
    folder: Folder = RECORD,
) -> None:
    """Print the proof that a signal is in the record.

    One line of JSON proves that a revision belongs to the published root of its day.

    Anyone can check it with `python3 docs/check_proof.py FILE ROOT`, without Newsproof.
    """
    async with log_to_read(invocation) as log:
        _, proofs = await _published(log, folder, None, None, only=signal_id)
    by_revision = {number: proof for (_, number), proof in proofs.items()}
    if not by_revision or (revision is not None and revision not in by_revision):
        wanted = f"signal {signal_id}" if revision is None else f"revision {revision} of signal {signal_id}"
        raise ConfigError(
            f"no file in {folder} proves {wanted}: `newsproof record publish` writes a day's file after its end, and "
            "`newsproof signals --json` lists the signals"
        )
    json_line(by_revision[max(by_revision) if revision is None else revision])


@command(record)
async def report(
    invocation: Invocation,
    since: From = None,
    until: To = None,
    horizon: Annotated[str, option("Time from an order's entry to its judgement: 5m, 1h, 4h or 24h.")] = "24h",
    html: Annotated[Path | None, option("Also write the report to this self-contained HTML file.", "--html")] = None,
    folder: Folder = RECORD,
    as_json: JsonReport = False,
) -> None:
    """Show the hit rate of all orders in a period.

    Losers and retracted orders are included. --json and --html add the proof of every signal.

    Prices come from `newsproof outcomes import`. Default: all days on the log.
    """
    from newsproof.report.track_record import groups_sheet, track_page, warning_of

    horizon_s = parse_span(horizon)
    if horizon_s not in HORIZONS_S:
        raise typer.BadParameter(f"{horizon!r}: write 5m, 1h, 4h or 24h", param_hint="--horizon")
    track_record = await _track_record(invocation, folder, _day(since, "--from"), _day(until, "--to"), horizon_s)
    if html is not None:
        write_page(html, lambda written_at: track_page(track_record, written_at=written_at))
    if as_json:
        return json_line(track_record)
    groups_sheet(track_record, title=f"Track record {track_record.since} to {track_record.until}").print()
    say_result(
        f"{warning_of(track_record)}The period has {counted(len(track_record.signals), 'signal')}; --json and --html list all, with proofs."
    )


def _day(text: str | None, option: str) -> str | None:
    if text is None:
        return None
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError as exc:
        raise typer.BadParameter(f"{text!r}: write a UTC day as YYYY-MM-DD", param_hint=option) from exc


async def _track_record(
    invocation: Invocation, folder: Path, since: str | None, until: str | None, horizon_s: int
) -> TrackRecord:
    from newsproof.report.track_record import Outcome, track_record

    async with log_to_read(invocation) as log:
        signals, proofs = await _published(log, folder, since, until)
    if not signals:
        raise ConfigError("no signal was published in this period: leave out --from and --to, or choose other days")
    async with database(invocation, admin=False) as client:
        rows = (await client.query(_OUTCOMES, {"horizon": horizon_s})).dicts()
    outcomes = {
        row["case_id"]: Outcome(market_return=row["market_return"], source=row["price_source"], exit_at=row["exit_at"])
        for row in rows
    }
    days = sorted(signal.decided_at.date().isoformat() for signal in signals)
    return track_record(signals, proofs, outcomes, since=since or days[0], until=until or days[-1], horizon_s=horizon_s)


async def _published(
    log: LogToRead, folder: Path, since: str | None, until: str | None, *, only: str | None = None
) -> tuple[list[Signal], dict[tuple[str, int], Proof]]:
    """Return the revisions of these days, and the proof of each whose day has a file. ``only``: of this signal alone."""
    from streams.journal.log import KafkaLog
    from streams.record.days import Revision, day_of, path_of, proofs_of, read_file, revisions

    by_day: dict[str, list[Revision]] = {}
    async for revision in revisions(KafkaLog(log.address), log.topics, since, until):
        if only in (None, revision.signal.signal_id):
            by_day.setdefault(day_of(revision.row.appended_ms), []).append(revision)
    proofs: dict[tuple[str, int], Proof] = {}
    for day, rows in by_day.items():
        if (path := path_of(folder, day)).exists():
            proofs |= proofs_of(read_file(path), rows)
    return [row.signal for rows in by_day.values() for row in rows], proofs


_OUTCOMES = """
SELECT case_id, any(market_return) AS market_return, any(price_source) AS price_source, any(exit_at) AS exit_at
FROM v_judged_outcomes
WHERE run_id = 'live' AND horizon_s = {horizon:UInt32} AND has_outcome AND standing NOT IN ('other_asset', 'before_knowable')
GROUP BY case_id
"""


# The new memories go into a second table, which then replaces the old one in one step, so recall never sees a partial memory.
# Rows that the sink wrote meanwhile are read from the log after the exchange. Only one rebuild may run at a time. Vectors that
# a case paid for are in the log. Vectors that rebuilds of earlier versions paid for are only in the table, and are copied.
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

    If you change EMBEDDING_PROVIDER, recall does not find earlier cases: they have no vectors of the new provider.

    Raises:
        NewsproofError: a server does not respond, or the log holds records of a newer version.
    """
    from newsproof.app.composition import address_of, clickhouse_of, topics_of
    from newsproof.app.processes.supervisor import prepare_tables

    settings = await with_data(invocation.settings(), given=invocation.data_dir_given)
    async with servers(settings) as running:
        at = running.applied_to(settings)
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
