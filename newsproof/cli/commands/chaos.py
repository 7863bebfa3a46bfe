"""The command that strikes a whole installation and says whether the promises held."""

from __future__ import annotations

from typing import Annotated

import typer

from newsproof.app import exits
from newsproof.app.invocation import json_line, run

HERE = "Run the pipeline"
_COUNT = {"min": 0, "show_default": False}


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command(rich_help_panel=HERE)(chaos)


def chaos(
    short: Annotated[
        bool, typer.Option("--short", help="Under three minutes, still with every kind of blow and every boundary.")
    ] = False,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Repeat the plan of a run; drawn and printed by default.")
    ] = None,
    cases: Annotated[
        int | None,
        typer.Option(
            min=100, help="Cases; the blows in proportion. 100,000, or 1,200 with --short.", show_default=False
        ),
    ] = None,
    workers: Annotated[int | None, typer.Option(min=2, max=16, help="Worker processes.", show_default=False)] = None,
    kills: Annotated[int | None, typer.Option(help="SIGKILLs of workers.", **_COUNT)] = None,
    broker_restarts: Annotated[int | None, typer.Option(help="SIGKILLs of the broker.", **_COUNT)] = None,
    zombies: Annotated[int | None, typer.Option(help="Workers frozen past their session.", **_COUNT)] = None,
    clickhouse_kills: Annotated[int | None, typer.Option(help="SIGKILLs of ClickHouse.", **_COUNT)] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the directory with data and logs.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One last line of JSON on standard output.")] = False,
) -> None:
    """Strike a whole installation of its own with faults, then check by the logs that nothing was lost or doubled.

    Kills workers, sink, broker and ClickHouse, freezes workers past their session, and lets providers fail, while cases
    stream by. Nothing configured is touched, and nothing is paid. Exit status 1 when a promise did not hold.
    """
    from lab.chaos.outcome import show
    from lab.chaos.plan import shaped
    from lab.chaos.run import chaos as run_chaos
    from newsproof.app.servers import say_on_stderr

    asked = {
        "workers": workers,
        "kills": kills,
        "broker_restarts": broker_restarts,
        "zombies": zombies,
        "clickhouse_kills": clickhouse_kills,
    }
    shape = shaped(short=short, seed=seed, cases=cases, **{k: v for k, v in asked.items() if v is not None})
    outcome = run(run_chaos(shape, say=say_on_stderr, keep=keep))
    show(outcome)
    if as_json:
        json_line(outcome)
    raise typer.Exit(exits.OK if outcome.held else exits.FINDING)
