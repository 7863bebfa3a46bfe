"""The commands that bring news in from where it is published: listen, sources."""

from __future__ import annotations

from typing import Annotated

import typer

from newsproof.app import exits
from newsproof.app.invocation import of, run
from newsproof.cli.listing import ListGroup

AsJson = Annotated[bool, typer.Option("--json", help="JSON on standard output, one document a line.")]
Only = Annotated[
    list[str] | None, typer.Option("--source", metavar="ID", help="This source alone, also one that is off.")
]
Which = Annotated[str, typer.Argument(metavar="ID", help="A source's id as `sources` lists it.")]

sources = typer.Typer(
    cls=ListGroup, help="Sources of news: what is on, how each does, and your own. Without a command: `list`."
)


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command()(listen)
    app.add_typer(sources, name="sources")


def listen(
    ctx: typer.Context,
    once: Annotated[bool, typer.Option("--once", help="One look at each source, then end.")] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="One look, of which nothing is kept: print what a first look would publish."),
    ] = False,
    check: Annotated[bool, typer.Option("--check", help="One look: say of each source whether it answers.")] = False,
    backfill: Annotated[
        str | None,
        typer.Option(
            metavar="SPAN",
            help="Also what came out within 90m, 24h or 3d; judged as of then, for no bot.",
            show_default=False,
        ),
    ] = None,
    source: Only = None,
    as_json: AsJson = False,
) -> None:
    """Listen to the sources that are on, and publish what is new, until Ctrl-C.

    One process listens at a time; another one stands by. What is remembered of items is in the log, so each becomes news once,
    however often this ends. Re-tellings of a story pay a triage each: look at `sources`, and mute what you do not need.

    Exit status 1 when a source did not answer (--once, --dry-run, --check).
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
    """List all sources: on or off, and how each does by the newest word of a listener."""
    from newsproof.cli.sources import show_sources

    run(show_sources(of(ctx), as_json=as_json), late_logs=True)


@sources.command()
def check(
    ctx: typer.Context,
    id: Annotated[list[str] | None, typer.Argument(metavar="[ID]…", help="These, also ones that are off.")] = None,
    as_json: AsJson = False,
) -> None:
    """Look at each source that is on once: does it answer, with how many items, how new?"""
    from newsproof.cli.listening import peeked

    well = run(peeked(of(ctx), tuple(id or ()), show_items=False, backfill=None, as_json=as_json))
    raise typer.Exit(exits.OK if well else exits.FINDING)


@sources.command()
def show(ctx: typer.Context, id: Which, as_json: AsJson = False) -> None:
    """Show one source: its row, and all that is known of how it does."""
    from newsproof.cli.sources import show_source

    run(show_source(of(ctx), id, as_json=as_json), late_logs=True)


@sources.command()
def reputation(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Say how often each source was first, copied, was borne out and had to be taken back: in stories of the last 90 days.

    Folded anew from the log. `list` and `show` tell what a listener wrote there within the last day.
    """
    from newsproof.cli.reputation import show_reputation

    run(show_reputation(of(ctx), as_json=as_json), late_logs=True)


@sources.command()
def mute(
    ctx: typer.Context,
    id: Which,
    off: Annotated[bool, typer.Option("--off", help="Listen to it again, or to one that is off by default.")] = False,
) -> None:
    """Turn a source off. A listener that runs hears of it within seconds."""
    from newsproof.cli.sources import mute_source

    mute_source(of(ctx).settings(), id, muted=not off)


@sources.command()
def add(
    ctx: typer.Context,
    url: Annotated[str, typer.Argument(metavar="URL", help="Address of an RSS or Atom feed, or of t.me/s/CHANNEL.")],
    id: Annotated[
        str | None, typer.Option(help="Its id, which is the source of its news; else made of the address.")
    ] = None,
    language: Annotated[str | None, typer.Option(help="zh or en; else told by the script of each text.")] = None,
    private: Annotated[bool, typer.Option("--private", help="The address may be one of your own network.")] = False,
) -> None:
    """Add a feed to the file of your own sources: four lines of TOML, which you may edit."""
    from newsproof.cli.sources import add_source

    add_source(of(ctx).settings(), url, name=id, language=language, private=private)
