"""``newsproof backtest`` and ``newsproof shadow``: replay recorded cases, or judge live ones, with a candidate."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from newsproof.app import exits
from newsproof.app.invocation import READS_ONLY, of, parse_time, run
from newsproof.app.sheet import json_line
from newsproof.cli.measure.compare import compare, gate, pnl, power, study
from newsproof.cli.options import JsonLastLine, argument, commands, json_flag, option

app = commands()
backtest = typer.Typer(
    help="Replay recorded cases with a changed prompt or model. See docs/backtest.md.", no_args_is_help=True
)
app.add_typer(backtest, name="backtest")


class StopRule(StrEnum):
    """Result against live at which a shadow run ends."""

    better = "better"
    worse = "worse"
    either = "either"


class MissPolicy(StrEnum):
    """What to do with a case that needs a lookup that is not in the log."""

    fail = "fail"
    skip = "skip"
    live = "live"


PAID_IS_KEPT = "finished cases and paid responses are kept; to resume, repeat the command"


@backtest.command("run")
def run_cases(
    ctx: typer.Context,
    prompt: Annotated[
        list[str] | None,
        option(
            "Prompt to test: NAME=VERSION (synthesize=v4) or NAME=FILE.md. Repeatable. Default: none, an A/A run.",
            metavar="NAME=…",
        ),
    ] = None,
    model: Annotated[
        list[str] | None,
        option("Model to test: TASK=PROVIDER:MODEL (synthesize=openai:gpt-5-mini). Repeatable.", metavar="TASK=…"),
    ] = None,
    since: Annotated[
        str | None, option("Only cases whose news was published at or after this time (UTC).", "--from")
    ] = None,
    until: Annotated[str | None, option("Only cases whose news was published before this time (UTC).", "--to")] = None,
    sample: Annotated[int, option("Number of cases to sample (deterministic). 0 = all.", min=0)] = 0,
    repeat: Annotated[int, option("Number of replays per case.", min=1, max=100)] = 1,
    max_cost: Annotated[
        float | None, option("Maximum cost in USD. The run stops before a call that could exceed it.", min=0)
    ] = None,
    dry_run: Annotated[bool, option("Print the calls and their cost without making any.", "--dry-run")] = False,
    on_miss: Annotated[
        MissPolicy,
        option(
            "For a lookup that is not in the log: report the case (fail), leave it out (skip), or look it up "
            "today (live)."
        ),
    ] = MissPolicy.fail,
    run_id: Annotated[str | None, option("Name of the run. The same name resumes an interrupted run.")] = None,
    sample_log: Annotated[bool, option("Use the bundled sample log instead of the journal.", "--sample-log")] = False,
    file: Annotated[
        Path | None, option("Use a log file written by `record-sample` instead of the journal.", show_default=False)
    ] = None,
    primary: Annotated[
        str | None,
        option("Primary metric, which `backtest compare` tests on its own, such as profit@4h. Default: profit@24h."),
    ] = None,
    ask_every_step: Annotated[bool, option("Re-run unaffected steps, too.", "--ask-every-step")] = False,
    as_json: JsonLastLine = False,
) -> None:
    """Replay recorded cases with a change.

    Recorded responses are reused. Models are called only for changed requests. No search is repeated.
    """
    from datetime import UTC, datetime

    from msgspec.structs import replace

    from evaluation.compare.metrics import parse_primary
    from evaluation.replay.candidates import candidate_models, candidate_prompts
    from evaluation.replay.log_file import read_log_file
    from evaluation.runs.plan import RunPlan, run_id_of
    from newsproof.app.version import code_version
    from newsproof.cli.measure.run_output import show_dry_run, show_run

    plan = RunPlan(
        run_id="",
        prompts=candidate_prompts(of(ctx).settings(), prompt or ()),
        models=candidate_models(of(ctx).settings(), model or ()),
        cases_from=None if since is None else parse_time("--from", since),
        cases_to=None if until is None else parse_time("--to", until),
        sample=sample,
        repeat=repeat,
        on_miss=on_miss.value,
        code_version=code_version(),
        log=str(file.resolve()) if file is not None else "sample" if sample_log else "journal",
        primary=parse_primary(primary) if primary else "",
    )
    plan = replace(plan, run_id=run_id_of(run_id, plan.change, datetime.now(UTC)))
    how: dict[str, Any] = {"ask_every_step": ask_every_step, "as_json": as_json}
    how["file"] = None if plan.log == "journal" else read_log_file(file)
    if dry_run:
        run(show_dry_run(of(ctx), plan, **how))
        return
    work = show_run(of(ctx), plan, max_cost=max_cost, **how)
    raise typer.Exit(run(work, interrupted=f"{PAID_IS_KEPT}, with --run-id {plan.run_id}"))


@backtest.command()
def verify(
    ctx: typer.Context,
    sample: Annotated[bool, option("Replay the bundled sample log. Needs no server.", "--sample")] = False,
    file: Annotated[Path | None, option("Replay a log file written by `record-sample`. Needs no server.")] = None,
    cases: Annotated[int, option("Number of cases to sample (deterministic). 0 = all.", min=0)] = 0,
    processes: Annotated[
        int, option("Number of processes, one core each. The result does not depend on it.", min=1, max=64)
    ] = 1,
    research: Annotated[
        bool, option("Replay the journal of chats and investigations instead of the news journal.", "--research")
    ] = False,
    as_json: JsonLastLine = False,
) -> None:
    """Check that an unchanged replay repeats every signal.

    Every signal must be identical byte for byte. No call is made.

    Exit status 1 if any signal differs.
    """
    from evaluation.replay.verify import verify_log
    from newsproof.cli.measure.run_output import show_verified

    work = verify_log(of(ctx), sample=sample, file=file, cases=cases, processes=processes, research=research)
    found = run(work, interrupted=READS_ONLY)
    if as_json:
        json_line(
            {name: getattr(found, name) for name in ("cases", "identical", "other_rules", "calls", "misses", "seconds")}
        )
    else:
        show_verified(found)
    raise typer.Exit(exits.OK if found.clean and found.cases else exits.FINDING)


@backtest.command()
def trials(ctx: typer.Context, as_json: JsonLastLine = False) -> None:
    """List every look at results, and what it may claim.

    A look is a `compare`, `gate`, `watch`, `pnl`, `study` or `labels report` on a run with a changed prompt or model. The same look at the same data is listed once.
    """
    from newsproof.cli.measure.run_output import show_looks

    run(show_looks(of(ctx), as_json=as_json))


@backtest.command("list")
def list_runs(ctx: typer.Context, as_json: JsonLastLine = False) -> None:
    """List runs, newest first."""
    from newsproof.cli.measure.run_output import show_list

    run(show_list(of(ctx), as_json=as_json))


@backtest.command()
def show(
    ctx: typer.Context,
    run_id: Annotated[str, argument("Run id from `backtest list`.", metavar="RUN")],
    as_json: JsonLastLine = False,
) -> None:
    """Show a run: its change, results and unfinished cases."""
    from newsproof.cli.measure.run_output import show_one

    run(show_one(of(ctx), run_id, as_json=as_json))


@backtest.command()
def watch(
    ctx: typer.Context,
    run_id: Annotated[str, argument("Id of a shadow run, running or finished.", metavar="RUN")],
    as_json: JsonLastLine = False,
) -> None:
    """Compare a shadow run with live so far.

    The confidence interval stays valid no matter how often you look.
    """
    from newsproof.cli.measure.run_output import show_watch

    run(show_watch(of(ctx), run_id, as_json=as_json))


@backtest.command("record-sample")
def record_sample(
    ctx: typer.Context,
    file: Annotated[Path, argument("Output file, such as log.jsonl.gz.", metavar="FILE")],
    log: Annotated[bool, option("Save the current log instead of running the sample.", "--this-log")] = False,
) -> None:
    """Run the 42 sample items, and save their log to a file.

    They run with the scripted model, on servers of their own.
    """
    from newsproof.cli.measure.record_sample import record

    run(record(of(ctx), file, this_log=log), interrupted=f"nothing is kept, {file} is as it was; start it again")


@app.command()
def shadow(
    ctx: typer.Context,
    prompt: Annotated[
        list[str], option("Candidate prompt: NAME=VERSION or NAME=FILE, such as synthesize=v4. Repeatable.", "--prompt")
    ],
    budget: Annotated[float, option("Maximum cost of the run in USD, restarts included.", min=0.0)] = 1.0,
    run_id: Annotated[
        str | None, option("Name of the run. Default: derived from the candidate.", "--run-id", show_default=False)
    ] = None,
    look_up: Annotated[
        bool, option("Make the searches that the live case did not make. Default: count them as misses.", "--look-up")
    ] = False,
    metric: Annotated[
        str, option("Metric to watch, fixed for the whole run: profit@5m, @1h, @4h or @24h, confidence, action_rate.")
    ] = "profit@24h",
    stop_when: Annotated[
        StopRule | None,
        option("End the run once its metric is better or worse than live's; fixed for the whole run. Default: never."),
    ] = None,
    as_json: Annotated[bool, json_flag("Print one JSON object on the last line instead of text.")] = False,
) -> None:
    """Run a candidate prompt on live traffic beside the live prompt, until SIGTERM. It publishes no signals."""
    from evaluation.compare.watch import parse_watch
    from evaluation.runs.shadow import shadow as run_shadow

    invocation = of(ctx)
    work = run_shadow(
        invocation,
        prompts=prompt,
        budget_usd=budget,
        run_id=run_id,
        on_miss="live" if look_up else "fail",
        watch=parse_watch(metric, stop_when.value if stop_when else ""),
        as_json=as_json,
    )
    raise typer.Exit(run(work, service=invocation.settings()))


for command in (compare, gate, power, pnl, study):
    backtest.command()(command)
