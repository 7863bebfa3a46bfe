"""Commands that decide recorded cases again: backtest run, compare, pnl, study, verify, list, show, record-sample."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from newsproof.app import exits
from newsproof.app.invocation import READS_ONLY, json_line, of, run
from newsproof.cli.commands.compare import compare, gate, power
from newsproof.cli.commands.profit import pnl, study
from newsproof.cli.commands.trials import leaderboard, trials, walk_forward

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
    app.add_typer(backtest, name="backtest")
    for command in (compare, gate, power, pnl, study, trials, leaderboard, walk_forward):
        backtest.command()(command)


PAID_IS_KEPT = "the cases that ended and every answer that was paid for are kept; the same command goes on"


@backtest.command("run")
def run_cases(
    ctx: typer.Context,
    prompt: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=VERSION (synthesize=v4) or NAME=FILE.md; may be repeated. Without: A/A.", metavar="NAME=…"
        ),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(help="TASK=PROVIDER:MODEL (synthesize=openai:gpt-5-mini); may be repeated.", metavar="TASK=…"),
    ] = None,
    candidate: Annotated[
        list[str] | None,
        typer.Option(
            help="A run of its own: FILE.md, NAME=VERSION, TASK=PROVIDER:MODEL, or several with commas; may be repeated.",
            metavar="CANDIDATE",
        ),
    ] = None,
    trial: Annotated[
        str | None, typer.Option(help="Name of the trial of all candidates; an interrupted one goes on under its name.")
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
    seal_from: Annotated[
        str | None,
        typer.Option(
            help="Seal cases received from then on, UTC, for a test period: every run leaves them out.", metavar="DATE"
        ),
    ] = None,
    open_seal: Annotated[
        bool, typer.Option("--open-seal", help="Take sealed cases too; the ledger of trials counts it.")
    ] = False,
    sample_log: Annotated[
        bool, typer.Option("--sample-log", help="Cases of the log that ships with the project, not of the journal.")
    ] = False,
    primary: Annotated[
        str | None,
        typer.Option(
            help="Declare the metric that compare is to test by itself, such as profit@4h; else it is profit."
        ),
    ] = None,
    ask_every_step: Every = False,
    as_json: AsJson = False,
) -> None:
    """Replay cases of the journal: known replies are reused, changed model calls are made, nothing is searched anew."""
    from datetime import UTC, datetime

    from newsproof.app.version import code_version
    from newsproof.evaluation.backtest.run.candidates import plans_of
    from newsproof.evaluation.backtest.run.plan import RunPlan, moment, positive_cost
    from newsproof.evaluation.backtest.run.show import show_dry_run, show_run
    from newsproof.evaluation.backtest.sample import read_log_file
    from newsproof.evaluation.compare.metrics import parse_primary
    from newsproof.evaluation.compare.power import what_a_sample_shows

    shared = RunPlan(
        run_id="",
        cases_from=moment("--from", since),
        cases_to=moment("--to", until),
        sample=sample,
        repeat=repeat,
        on_miss=on_miss.value,
        code_version=code_version(),
        sealed_from=moment("--seal-from", seal_from),
        open_seal=open_seal,
        log="sample" if sample_log else "journal",
        primary=parse_primary(primary) if primary else "",
    )
    plans = plans_of(
        of(ctx).settings(),
        shared,
        prompts=prompt or (),
        models=model or (),
        candidates=candidate or (),
        run_id=run_id,
        trial=trial,
        now=datetime.now(UTC),
    )
    how: dict[str, Any] = {"ask_every_step": ask_every_step, "as_json": as_json}
    how["file"] = read_log_file() if sample_log else None
    if dry_run:
        run(show_dry_run(of(ctx), plans, can_show=what_a_sample_shows, **how))
        return
    work = show_run(of(ctx), plans, max_cost=positive_cost(max_cost), **how)
    raise typer.Exit(run(work, interrupted=f"{PAID_IS_KEPT}, with {plans[0].again}"))


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
    research: Annotated[
        bool, typer.Option("--research", help="The journal of chats and investigations, not that of the news.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Replay the log with nothing changed: every signal must come out byte for byte, without a call. Else exit status 1."""
    from newsproof.evaluation.backtest.run.show import show_verified, verified

    work = verified(of(ctx), sample=sample, file=file, cases=cases, processes=processes, research=research)
    found = run(work, interrupted=READS_ONLY)
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


@backtest.command()
def watch(
    ctx: typer.Context,
    run_id: Annotated[str, typer.Argument(metavar="RUN", help="A shadow run, while it runs or afterwards.")],
    as_json: AsJson = False,
) -> None:
    """Say how a shadow run stands beside live, as often as you like: its metric, with an interval that holds at every look."""
    from newsproof.evaluation.watch.show import show_watched

    run(show_watched(of(ctx), run_id, as_json=as_json))


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

    run(record(of(ctx), file, this_log=log), interrupted=f"nothing is kept, {file} is as it was; start it again")
