"""Commands that decide recorded cases again: backtest run, compare, verify, list, show, record-sample."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from newsproof.app import exits
from newsproof.app.invocation import json_line, of, run
from newsproof.cli.commands.compare import compare

HERE = "Prompts and models"
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on the last line of standard output.")]
Every = Annotated[
    bool,
    typer.Option("--ask-every-step", help="Also steps before the changed prompt, which would say what is recorded."),
]

backtest = typer.Typer(
    help="Decide recorded cases again, with a changed prompt; docs/backtest.md.", no_args_is_help=True
)


class MissPolicy(StrEnum):
    """What becomes of a case that asks what was never looked up."""

    fail = "fail"
    skip = "skip"
    live = "live"


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.add_typer(backtest, name="backtest", rich_help_panel=HERE)
    backtest.command()(compare)


@backtest.command("run")
def run_cases(
    ctx: typer.Context,
    prompt: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=VERSION (synthesize=v4) or NAME=FILE.md; may be repeated. Without: A/A.", metavar="NAME=…"
        ),
    ] = None,
    since: Annotated[str | None, typer.Option("--from", help="Cases received from then on, UTC.")] = None,
    until: Annotated[str | None, typer.Option("--to", help="Cases received before then, UTC.")] = None,
    sample: Annotated[int, typer.Option(min=0, help="So many cases, always the same ones; 0: all.")] = 0,
    repeat: Annotated[int, typer.Option(min=1, max=100, help="How often each case is replayed.")] = 1,
    max_cost: Annotated[
        float | None, typer.Option(min=0, help="USD; the run stops before a call that might exceed it.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be asked and what it costs; ask nothing.")
    ] = False,
    on_miss: Annotated[
        MissPolicy,
        typer.Option(
            help="A question that was never asked then: report the case, leave it out, or ask the world of today."
        ),
    ] = MissPolicy.fail,
    run_id: Annotated[
        str | None, typer.Option(help="Name of the run; an interrupted one goes on under its name.")
    ] = None,
    sample_log: Annotated[
        bool, typer.Option("--sample-log", help="Cases of the log that ships with the project, not of the journal.")
    ] = False,
    ask_every_step: Every = False,
    as_json: AsJson = False,
) -> None:
    """Replay cases of the journal: known replies are reused, changed model calls are made, nothing is searched anew."""
    from datetime import UTC, datetime

    from newsproof.app.version import code_version
    from newsproof.evaluation.backtest.prompts import candidate_prompts
    from newsproof.evaluation.backtest.run.plan import RunPlan, moment, positive_cost, run_id_of
    from newsproof.evaluation.backtest.run.show import show_dry_run, show_run
    from newsproof.evaluation.backtest.sample import read_log_file

    prompts = candidate_prompts(of(ctx).settings(), prompt or ())
    plan = RunPlan(
        run_id=run_id_of(run_id, prompts, datetime.now(UTC)),
        prompts=prompts,
        cases_from=moment("--from", since),
        cases_to=moment("--to", until),
        sample=sample,
        repeat=repeat,
        on_miss=on_miss.value,
        code_version=code_version(),
    )
    how: dict[str, Any] = {"ask_every_step": ask_every_step, "as_json": as_json}
    how["file"] = read_log_file() if sample_log else None
    if dry_run:
        run(show_dry_run(of(ctx), plan, **how))
        return
    work = show_run(of(ctx), plan, max_cost=positive_cost(max_cost), **how)
    raise typer.Exit(run(work))


@backtest.command()
def verify(
    ctx: typer.Context,
    sample: Annotated[
        bool, typer.Option("--sample", help="The log that ships with the project; needs no server.")
    ] = False,
    file: Annotated[Path | None, typer.Option(help="A log file of `record-sample`; needs no server.")] = None,
    cases: Annotated[int, typer.Option(min=0, help="So many cases, drawn by their ids; 0: all.")] = 0,
    processes: Annotated[
        int, typer.Option(min=1, max=64, help="How many share the cases; the result is the same. Each takes a core.")
    ] = 1,
    as_json: AsJson = False,
) -> None:
    """Replay the log with nothing changed: every signal must come out byte for byte, without a call. Else exit status 1."""
    from newsproof.evaluation.backtest.run.show import show_verified, verified

    found = run(verified(of(ctx), sample=sample, file=file, cases=cases, processes=processes))
    if as_json:
        json_line(
            {name: getattr(found, name) for name in ("cases", "identical", "other_rules", "calls", "misses", "seconds")}
        )
    else:
        show_verified(found)
    raise typer.Exit(exits.OK if found.clean and found.cases else exits.FINDING)


@backtest.command("list")
def list_runs(ctx: typer.Context, as_json: AsJson = False) -> None:
    """List the runs, the newest first."""
    from newsproof.evaluation.backtest.run.show import show_list

    run(show_list(of(ctx), as_json=as_json))


@backtest.command()
def show(
    ctx: typer.Context,
    run_id: Annotated[str, typer.Argument(metavar="RUN", help="Run id, as `backtest list` shows it.")],
    as_json: AsJson = False,
) -> None:
    """Show one run: its change, what became of its cases, and those that did not come to an end."""
    from newsproof.evaluation.backtest.run.show import show_one

    run(show_one(of(ctx), run_id, as_json=as_json))


@backtest.command("record-sample")
def record_sample(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write, such as log.jsonl.gz.")],
    log: Annotated[
        bool, typer.Option("--this-log", help="The log as it is, instead of a fresh run of the sample.")
    ] = False,
) -> None:
    """Run the 42 sample items with the scripted model on servers of their own, and keep their log as a file."""
    from newsproof.evaluation.backtest.record import record

    run(record(of(ctx), file, this_log=log))
