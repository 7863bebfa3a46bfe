"""``newsproof record``: a record of published signals that nobody can edit afterwards without being noticed."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from infra.kafka.topics import ensure_topics
from newsproof.app import exits
from newsproof.app.data_access import LogToRead, database, log_to_read, open_log
from newsproof.app.invocation import Invocation, parse_span
from newsproof.app.sheet import Columns, Sheet, Unit, json_line, json_lines, say_result
from newsproof.cli.options import JsonLines, JsonReport, argument, command, commands, option
from newsproof.cli.output import write_page
from schemas.errors import ConfigError
from schemas.printable import counted
from schemas.record import DayRoot, Proof, encode
from schemas.signals import Signal

if TYPE_CHECKING:
    from newsproof.report.track_record import TrackRecord

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
    """Publish every UTC day that has ended: its root on the topic record-roots, its rows in FOLDER/YYYY-MM-DD.json.

    Put the folder where others keep copies, such as a public git repository: whoever can write to the log can write a new
    record as well, but not change those copies.
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
        say_result("Nothing new: every day that ended is published. A day is published 15 minutes after its end (UTC).")


@command(record)
async def verify(
    invocation: Invocation,
    since: From = None,
    until: To = None,
    root: Annotated[
        list[Path] | None,
        option(
            "A copy of a day's file, kept elsewhere. Only the days of the copies are compared. Repeatable.", "--root"
        ),
    ] = None,
    folder: Folder = RECORD,
    as_json: JsonReport = False,
) -> int:
    """Compare the log with what was published: name each signal that was changed, moved, removed or added.

    Exit status 1 if anything differs.
    """
    from streams.journal.log import KafkaLog
    from streams.record.days import read_file
    from streams.record.days import verify as compare

    first, last = _day(since, "--from"), _day(until, "--to")
    files = [read_file(path) for path in root or []]
    async with log_to_read(invocation) as log:
        days, found = await compare(KafkaLog(log.address), log.topics, folder, since=first, until=last, files=files)
    if as_json:
        json_line({"days": len(days), "signals": sum(day.signals for day in days), "differences": found})
    elif found:
        columns: Columns = {
            "day": "day",
            "what": "kind",
            "signal": lambda one: one.signal_id or "–",
            "revision": ("revision", Unit(lambda revision: str(revision or "–"))),
            "how": "what",
        }
        Sheet.of(
            found, columns, title=f"{counted(len(found), 'difference')} between the log and what was published"
        ).print()
    else:
        say_result(
            f"The log still holds what was published: {counted(sum(day.signals for day in days), 'revision')} on "
            f"{counted(len(days), 'day')}, {days[0].day} to {days[-1].day}."
        )
    return exits.FINDING if found else exits.OK


@command(record)
async def prove(
    invocation: Invocation,
    signal_id: Annotated[str, argument("The signal's id.")],
    revision: Annotated[int | None, option("Its revision. Default: the latest published one.", min=1)] = None,
    folder: Folder = RECORD,
) -> None:
    """Print the proof, as one line of JSON, that a revision belongs to the published root of its day.

    A stranger checks it with `python3 docs/check_proof.py FILE ROOT`, without Newsproof.
    """
    async with log_to_read(invocation) as log:
        _, proofs = await _published(log, folder, None, None, only=signal_id)
    found = {number: proof for (_, number), proof in proofs.items()}
    if not found or (revision is not None and revision not in found):
        wanted = f"signal {signal_id}" if revision is None else f"revision {revision} of signal {signal_id}"
        raise ConfigError(
            f"no file in {folder} proves {wanted}: `newsproof record publish` writes a day's file after its end, and "
            "`newsproof signals --json` lists the signals"
        )
    json_line(found[max(found) if revision is None else revision])


@command(record)
async def report(
    invocation: Invocation,
    since: From = None,
    until: To = None,
    horizon: Annotated[str, option("When an order is judged: 5m, 1h, 4h or 24h after the entry.")] = "24h",
    html: Annotated[
        Path | None, option("Also write the record to this file, which is self-contained.", "--html")
    ] = None,
    folder: Folder = RECORD,
    as_json: JsonReport = False,
) -> None:
    """Show how often orders were right: every signal of a period, losers and retractions included, with proofs.

    Prices come from `newsproof outcomes import`. Default: all published days.
    """
    from newsproof.report.track_record import groups_sheet, track_page, warning_of

    horizon_s = parse_span(horizon)
    if horizon_s not in (300, 3600, 14400, 86400):
        raise typer.BadParameter(f"{horizon!r}: write 5m, 1h, 4h or 24h", param_hint="--horizon")
    found = await _track_record(invocation, folder, _day(since, "--from"), _day(until, "--to"), horizon_s)
    if html is not None:
        write_page(html, lambda written_at: track_page(found, written_at=written_at))
    if as_json:
        return json_line(found)
    groups_sheet(found, title=f"Track record {found.since} to {found.until}").print()
    say_result(
        f"{warning_of(found)}{counted(len(found.signals), 'signal')} in this period; --json and --html list them all, with proofs."
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
        found = (await client.query(_OUTCOMES, {"horizon": horizon_s})).dicts()
    outcomes = {
        row["case_id"]: Outcome(market_return=row["market_return"], source=row["price_source"], exit_at=row["exit_at"])
        for row in found
    }
    days = sorted(one.decided_at.date().isoformat() for one in signals)
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
    for day, found in by_day.items():
        if (path := path_of(folder, day)).exists():
            proofs |= proofs_of(read_file(path), found)
    return [one.signal for found in by_day.values() for one in found], proofs


_OUTCOMES = """
SELECT case_id, any(market_return) AS market_return, any(price_source) AS price_source, any(exit_at) AS exit_at
FROM v_judged_outcomes
WHERE run_id = 'live' AND horizon_s = {horizon:UInt32} AND has_outcome AND standing NOT IN ('other_asset', 'before_knowable')
GROUP BY case_id
"""
