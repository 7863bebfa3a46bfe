"""Commands for whoever runs it: topics, kafka, dlq, budget, doctor."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from newsproof.app import exits
from newsproof.app.invocation import agreed, json_line, of, run, say_result, table
from newsproof.cli.listing import ListGroup

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")]

topics = typer.Typer(help="Create and describe the Kafka topics.", no_args_is_help=True)
dlq = typer.Typer(
    cls=ListGroup,
    help="Dead letters: records that could not be read, and failed cases. Without a command: `list`.",
)


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.add_typer(topics, name="topics")
    app.add_typer(dlq, name="dlq")
    app.command()(kafka)
    app.command()(budget)
    app.command()(doctor)


@topics.command()
def create(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Create missing topics, and check the partition counts of the others."""
    from newsproof.cli.log.topics import create_topics

    run(create_topics(of(ctx), as_json=as_json))


@topics.command()
def describe(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Show every topic with its partitions, records and settings."""
    from newsproof.cli.log.topics import describe_topics

    run(describe_topics(of(ctx), as_json=as_json))


def kafka(
    ctx: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Print how confluent-kafka, kcat, Kafka's own tools and bots connect to the embedded Kafka.

    Prints the password, too.
    """
    from newsproof.cli.access.kafka import login_of

    found, ways = run(login_of(of(ctx)))
    if as_json:
        json_line(found | ways)
        return
    table(("what", "value"), list(found.items()))
    for client, lines in ways.items():
        say_result(f"\n{client}:\n{lines}")


Which = Annotated[str, typer.Argument(metavar="ID", help="Dead letter id from `dlq list`, such as 2:17.")]


@dlq.command("list")
def list_letters(
    ctx: typer.Context,
    reason: Annotated[str | None, typer.Option(help="Only dead letters with this reason, such as not_json.")] = None,
    as_json: AsJson = False,
) -> None:
    """List dead letters with their reasons."""
    from newsproof.cli.log.dead_letters import show_dead_letters

    run(show_dead_letters(of(ctx), reason=reason, as_json=as_json), late_logs=True)


@dlq.command()
def show(
    ctx: typer.Context,
    id: Which,
    value: Annotated[
        bool, typer.Option("--value", help="Print only the original bytes, to correct them in a file.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show one dead letter: its reason and the original record."""
    from newsproof.cli.log.dead_letters import show_dead_letter

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
    as_json: AsJson = False,
) -> None:
    """Send dead letters to their topic again, once you have fixed the cause."""
    from newsproof.app.dead_letters import Choice
    from newsproof.cli.log.dead_letters import requeue_dead_letters

    choice = Choice(ids=tuple(id or ()), reason=all_of_reason, everything=everything, value=value, again=again)
    run(requeue_dead_letters(of(ctx), choice, as_json=as_json))


def budget(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Show the budget: limits, spending today and this month, what is left, denials and alerts."""
    from newsproof.cli.log.budget import show_budget

    run(show_budget(of(ctx), as_json=as_json), late_logs=True)


def doctor(
    ctx: typer.Context,
    live: Annotated[
        bool,
        typer.Option(
            "--live", help="Make one cheap call to each service that live mode calls. Prints the price first."
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Skip the confirmation of --live.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check what is configured, reachable and missing, and what to set where.

    Exit status 1 if anything is missing. Without --live, it makes no paid call and sends no key. The calls of --live are not
    counted in the budget.
    """
    from newsproof.cli.doctor.calls import Plan, planned
    from newsproof.cli.doctor.doctor import diagnose
    from schemas.errors import ConfigError

    invocation = of(ctx)
    try:
        plan = planned(invocation.settings())
        why = "live mode is off"
    except ConfigError as exc:
        plan, why = Plan(), str(exc)
    nothing_tried = live and not plan.calls
    if nothing_tried:
        print(f"No calls made: {why}", file=sys.stderr)
    live = live and bool(plan.calls) and agreed(plan.question(), yes=yes)
    healthy = run(diagnose(invocation, plan, live=live, as_json=as_json))
    raise typer.Exit(exits.OK if healthy and not nothing_tried else exits.FINDING)
