"""The commands that bring news in from where it is published: listen, sources."""

from __future__ import annotations

from typing import Annotated

import typer

from newsproof.app import exits
from newsproof.app.invocation import of, run
from newsproof.cli.listing import ListGroup

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")]
Only = Annotated[
    list[str] | None, typer.Option("--source", metavar="ID", help="Only this source, even if it is off. Repeatable.")
]
Which = Annotated[str, typer.Argument(metavar="ID", help="Source id from `sources list`.")]

sources = typer.Typer(cls=ListGroup, help="List, check, add and mute news sources. Without a command: `list`.")


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command()(listen)
    app.add_typer(sources, name="sources")


def listen(
    ctx: typer.Context,
    once: Annotated[bool, typer.Option("--once", help="Poll each source once, then exit.")] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Poll once, print what a first poll would publish, and keep nothing."),
    ] = False,
    check: Annotated[bool, typer.Option("--check", help="Poll once and report whether each source responds.")] = False,
    backfill: Annotated[
        str | None,
        typer.Option(
            metavar="SPAN",
            help="Also publish items from the last 90m, 24h or 3d. Judge each item as of its publication time. "
            "Never sent to bots.",
            show_default=False,
        ),
    ] = None,
    source: Only = None,
    as_json: AsJson = False,
) -> None:
    """Poll the sources that are on and publish new items, until Ctrl-C.

    One process polls at a time; a second one stands by. The log remembers items, so each becomes news only once, however often
    the listener restarts. Every report of a story pays for its own triage: run `newsproof sources` and mute what you do not need.

    Exit status 1 if a source did not respond (--once, --dry-run, --check).
    """
    from newsproof.app.processes.listening import span_of
    from newsproof.cli import listening

    invocation, only, back = of(ctx), tuple(source or ()), span_of(backfill)
    if check or dry_run:
        well = run(listening.peeked(invocation, only, show_items=dry_run, backfill=back, as_json=as_json))
        raise typer.Exit(exits.OK if well else exits.FINDING)
    if once:
        well = run(listening.looked_once(invocation, only, backfill=back, as_json=as_json))
        raise typer.Exit(exits.OK if well else exits.FINDING)
    run(listening.listen(invocation, only, backfill=back), service=invocation.settings())


@sources.command("list")
def list_sources(ctx: typer.Context, as_json: AsJson = False) -> None:
    """List all sources, whether they are on, and the state that the listener last reported."""
    from newsproof.cli.sources import show_sources

    run(show_sources(of(ctx), as_json=as_json), late_logs=True)


@sources.command()
def check(
    ctx: typer.Context,
    id: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]…", help="Check only these sources, even if they are off.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Poll each source that is on once. Show whether it responds, how many items it has and how new they are."""
    from newsproof.cli.listening import peeked

    well = run(peeked(of(ctx), tuple(id or ()), show_items=False, backfill=None, as_json=as_json))
    raise typer.Exit(exits.OK if well else exits.FINDING)


@sources.command()
def show(ctx: typer.Context, id: Which, as_json: AsJson = False) -> None:
    """Show one source: its definition and its state."""
    from newsproof.cli.sources import show_source

    run(show_source(of(ctx), id, as_json=as_json), late_logs=True)


@sources.command()
def reputation(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Show how often each source reported first, copied others, was corroborated and was retracted, in the last 90 days.

    Computed from the stories in the log. `list` and `show` print what a listener computed within the last day.
    """
    from newsproof.cli.reputation import show_reputation

    run(show_reputation(of(ctx), as_json=as_json), late_logs=True)


@sources.command()
def mute(
    ctx: typer.Context,
    id: Which,
    off: Annotated[
        bool, typer.Option("--off", help="Unmute the source, or turn on one that is off by default.")
    ] = False,
) -> None:
    """Turn a source off. A running listener applies it within seconds."""
    from newsproof.cli.sources import mute_source

    mute_source(of(ctx).settings(), id, muted=not off)


@sources.command()
def add(
    ctx: typer.Context,
    url: Annotated[str, typer.Argument(metavar="URL", help="Address of an RSS or Atom feed, or of t.me/s/CHANNEL.")],
    id: Annotated[str | None, typer.Option(help="Source id of its news. Default: derived from the address.")] = None,
    language: Annotated[
        str | None, typer.Option(help="zh or en. Default: detected from the script of each text.")
    ] = None,
    private: Annotated[bool, typer.Option("--private", help="Allow an address in your own network.")] = False,
) -> None:
    """Add a feed to your own sources file, as four lines of TOML that you can edit."""
    from newsproof.cli.sources import add_source

    add_source(of(ctx).settings(), url, name=id, language=language, private=private)
