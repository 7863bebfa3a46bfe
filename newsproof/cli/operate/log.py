"""``newsproof audit``, ``dlq`` and ``topics``: the log, its dead letters and its topics."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from newsproof.app import exits
from newsproof.app.data_access import log_to_read, open_log
from newsproof.app.dead_letters import Choice, DeadLetter, DeadLetters, chosen_of, named, replacement_of
from newsproof.app.invocation import Invocation, json_line, json_lines, of, run, say_result, table
from newsproof.app.servers import say_on_stderr, servers
from newsproof.app.terminal import bytes_of_output
from newsproof.cli.options import JsonLines, ListGroup, commands
from schemas.printable import counted, shortened

if TYPE_CHECKING:
    from streams.audit.audit import AuditReport

app = commands()
SHOWN = ("cleanup.policy", "retention.ms", "max.message.bytes", "message.timestamp.type")
"""Settings of a topic that `topics describe` prints."""
topics = typer.Typer(help="Create and describe the Kafka topics.", no_args_is_help=True)
dlq = typer.Typer(
    cls=ListGroup,
    help="Dead letters: records that could not be read, and failed cases. Without a command: `list`.",
)
app.add_typer(topics, name="topics")
app.add_typer(dlq, name="dlq")


@app.command()
def audit(ctx: typer.Context, as_json: JsonLines = False) -> None:
    """Check the whole log for lost, duplicate and forged records.

    Exit status 1 if a record is lost or duplicated, if a signal is forged or claims more than the search found, or if a case of a
    listed source lacks the listener's signature.
    """
    report = run(audited(of(ctx)), late_logs=True)
    if as_json:
        json_line(report)
    else:
        from newsproof.report.audit import print_audit

        print_audit(report)
    raise typer.Exit(exits.OK if report.clean else exits.FINDING)


@topics.command()
def create(ctx: typer.Context, as_json: JsonLines = False) -> None:
    """Create missing topics, and check the partition counts of the others."""
    run(create_topics(of(ctx), as_json=as_json))


@topics.command()
def describe(ctx: typer.Context, as_json: JsonLines = False) -> None:
    """Show every topic with its partitions, records and settings."""

    run(describe_topics(of(ctx), as_json=as_json))


Which = Annotated[str, typer.Argument(metavar="ID", help="Dead letter id from `dlq list`, such as 2:17.")]


@dlq.command("list")
def list_letters(
    ctx: typer.Context,
    reason: Annotated[str | None, typer.Option(help="Only dead letters with this reason, such as not_json.")] = None,
    as_json: JsonLines = False,
) -> None:
    """List dead letters with their reasons."""

    run(show_dead_letters(of(ctx), reason=reason, as_json=as_json), late_logs=True)


@dlq.command()
def show(
    ctx: typer.Context,
    id: Which,
    value: Annotated[
        bool, typer.Option("--value", help="Print only the original bytes, to correct them in a file.")
    ] = False,
    as_json: JsonLines = False,
) -> None:
    """Show one dead letter: its reason and the original record."""

    run(show_dead_letter(of(ctx), id, value_alone=value, as_json=as_json), late_logs=True)


@dlq.command()
def requeue(
    ctx: typer.Context,
    id: Annotated[list[str] | None, typer.Argument(metavar="[ID]…", help="Dead letters to send again.")] = None,
    all_of_reason: Annotated[
        str | None, typer.Option("--reason", help="Send all dead letters with this reason.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Send all dead letters that can be sent again.")] = False,
    value: Annotated[
        Path | None, typer.Option(help="Send this file's bytes instead of the original (one ID only).")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Include dead letters that were sent again before.")] = False,
    as_json: JsonLines = False,
) -> None:
    """Send dead letters to their topic again, once you have fixed the cause."""
    choice = Choice(ids=tuple(id or ()), reason=all_of_reason, everything=everything, value=value, again=again)
    run(requeue_dead_letters(of(ctx), choice, as_json=as_json))


def _document(dead_letter: DeadLetter) -> dict[str, Any]:
    about = {f: getattr(dead_letter, f) for f in DeadLetter.__struct_fields__ if f not in ("key", "value", "headers")}
    return about | {
        "key": None if dead_letter.key is None else dead_letter.key.decode("utf-8", "backslashreplace"),
        "value": dead_letter.preview,
        "headers": {k: v.decode("utf-8", "backslashreplace") for k, v in dead_letter.headers},
    }


async def show_dead_letters(invocation: Invocation, *, reason: str | None, as_json: bool) -> None:
    async with log_to_read(invocation) as log:
        dead_letters = [
            one for one in await DeadLetters(log.address, log.topics).read() if reason in (None, one.reason)
        ]
    if as_json:
        json_lines(map(_document, dead_letters))
        return
    rows = [
        (
            one.id,
            f"{one.at:%Y-%m-%d %H:%M:%S}",
            f"{one.topic} {one.partition}:{one.offset}" if one.topic else f"case {(one.case or '?')[:8]}",
            one.reason,
            one.why,
            "sent again" if one.requeued else "",
            shortened(one.preview, 50),
        )
        for one in dead_letters
    ]
    table(
        ("id", "when", "from", "reason", "why", "state", "value"),
        rows,
        title=counted(len(dead_letters), "dead letter"),
    )


async def show_dead_letter(invocation: Invocation, wanted: str, *, value_alone: bool, as_json: bool) -> None:
    """Print one dead letter, with ``value_alone`` only its original bytes."""
    async with log_to_read(invocation) as log:
        dead_letter = named(await DeadLetters(log.address, log.topics).read(), wanted)
    if value_alone:
        _print_value(dead_letter.value or b"")
    elif as_json:
        json_line(_document(dead_letter))
    else:
        for name, value in _document(dead_letter).items():
            say_result(f"{name:>10}  {value}")


def _print_value(value: bytes) -> None:
    """Write the bytes unchanged to a file or pipe, for correction and requeueing; to a terminal as printable text."""
    output = bytes_of_output()
    if output is None:
        say_result(value.decode("utf-8", "replace"))
    else:
        output.write(value)
        output.flush()


async def requeue_dead_letters(invocation: Invocation, choice: Choice, *, as_json: bool) -> None:
    """Send the chosen dead letters to their topic again.

    Raises:
        ConfigError: nothing or too much is chosen, or a dead letter cannot be sent again.
    """
    replacement = replacement_of(choice)
    async with log_to_read(invocation) as log:
        letters = DeadLetters(log.address, log.topics)
        chosen = chosen_of(await letters.read(), choice, log.topics.news)
        await letters.send(chosen, replacement)
    if as_json:
        json_line({"requeued": [dead_letter.id for dead_letter in chosen]})
    else:
        say_result(f"sent {len(chosen)} again: {', '.join(dead_letter.id for dead_letter in chosen) or 'none'}")


async def audited(invocation: Invocation) -> AuditReport:
    """Audit the log, and keep the result for `/metrics` and the page."""
    from infra.listeners.mark import keys_at_hand
    from newsproof.app.data_dir import keep_audit
    from streams.audit.audit import audit as audit_log
    from streams.journal.clock import utc_now
    from streams.journal.log import KafkaLog

    async with open_log(invocation) as log:
        report = await audit_log(KafkaLog(log.address), log.topics, keys=keys_at_hand(log.settings))
    try:
        keep_audit(log.settings.newsproof_data_dir, report.broken, utc_now())
    except OSError as exc:
        say_on_stderr(f"the result could not be saved, so the page and the alerts still show an earlier audit: {exc}")
    return report


async def create_topics(invocation: Invocation, *, as_json: bool) -> None:
    """Create the missing topics.

    Raises:
        ConfigError: a topic exists with another partition count.
    """
    from newsproof.app.processes.supervisor import prepare_topics

    settings = invocation.settings()
    async with servers(settings, clickhouse=False) as found:
        created = await prepare_topics(found.applied_to(settings))
    if as_json:
        json_line({"created": created})
    elif created:
        table(("created", "partitions"), created.items(), right=("partitions",))
    else:
        say_result("All topics already exist.")


async def describe_topics(invocation: Invocation, *, as_json: bool) -> None:
    """Print partitions, number of offsets and configuration of each topic."""
    from infra.kafka.topics import offsets_of, topic_specs
    from newsproof.app.composition import address_of, topics_of

    rows: list[dict[str, Any]] = []
    async with open_log(invocation) as log:
        names = list(topic_specs(topics_of(log.settings), partitions=log.settings.topic_partitions))
        async with address_of(log.settings).admin() as admin:
            existing = set(await admin.list_topics())
            found = [name for name in names if name in existing]
            configs = await _configs(admin, found)
        for name in names:
            bounds = await offsets_of(log.address, name) if name in existing else {}
            rows.append(
                {
                    "topic": name,
                    "exists": name in existing,
                    "partitions": len(bounds),
                    "offsets": sum(end - first for first, end in bounds.values()),
                    **{key: configs.get(name, {}).get(key, "") for key in SHOWN},
                }
            )
    if as_json:
        json_lines(rows)
        return
    table(list(rows[0]), [list(row.values()) for row in rows], right=("partitions", "offsets"))


async def _configs(admin: Any, names: list[str]) -> dict[str, dict[str, str]]:
    from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

    wanted = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
    described: dict[str, dict[str, str]] = {}
    for response in await admin.describe_configs(wanted) if wanted else ():
        for _code, _message, _kind, name, entries in response.resources:
            described[name] = {entry[0]: entry[1] for entry in entries}
    return described
