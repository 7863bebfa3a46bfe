"""``newsproof backtest`` and ``newsproof shadow``: replay recorded cases, or judge live ones, with a candidate."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from newsproof.app import exits
from newsproof.app.invocation import READS_ONLY, Invocation, of, parse_time, run
from newsproof.app.servers import say_on_stderr as say
from newsproof.app.sheet import advise, figures_table, json_line, money, say_result, table
from newsproof.app.terminal import command_name
from newsproof.cli.measure.profit import pnl, study
from newsproof.cli.measure.runs import compare, gate, list_runs, power, show, trials, watch
from newsproof.cli.options import JsonLastLine, argument, command, commands, json_flag, option
from schemas.printable import counted

if TYPE_CHECKING:
    from evaluation.replay.log_file import LogFile
    from evaluation.replay.verify import VerifyResult
    from evaluation.runs.backtest import RunResult
    from evaluation.runs.estimate import Estimate
    from evaluation.runs.plan import RunPlan

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
    from msgspec.structs import replace

    from evaluation.compare.metrics import parse_primary
    from evaluation.replay.candidates import candidate_models, candidate_prompts
    from evaluation.replay.log_file import read_log_file
    from evaluation.runs.plan import RunPlan, run_id_of
    from newsproof.app.version import code_version

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
    read = None if plan.log == "journal" else read_log_file(file)
    if dry_run:
        run(_estimate(of(ctx), plan, read, ask_every_step=ask_every_step, as_json=as_json))
        return
    work = _run(of(ctx), plan, read, max_cost=max_cost, ask_every_step=ask_every_step, as_json=as_json)
    raise typer.Exit(run(work, interrupted=f"{PAID_IS_KEPT}, with --run-id {plan.run_id}"))


async def _estimate(
    invocation: Invocation, plan: RunPlan, file: LogFile | None, *, ask_every_step: bool, as_json: bool
) -> None:
    """Print the estimate of a plan, and what its sample can show. ``file``: a log to use in place of the journal."""
    from evaluation.compare.code_identity import code_change, code_change_note
    from evaluation.compare.compare_runs import describe_sample_power
    from evaluation.compare.terms import PRIMARY
    from evaluation.replay.candidates import OFFLINE, reads_no_prompt
    from evaluation.runs.backtest import dry_run, log_and_tables

    async with log_and_tables(invocation, reads_log=file is None) as (log, tables):
        _warn_of_today(plan)
        if reads_no_prompt(log.settings, plan.prompts):
            say(f"Only the estimate is possible: {OFFLINE}.")
        estimated, about, cases = await dry_run(log, tables, plan, ask_every_step=ask_every_step, file=file)
        estimated.can_show = await describe_sample_power(
            tables, cases, plan.primary or PRIMARY, log.settings.profit_cap
        )
    if as_json:
        change = code_change(about.recording, about) if estimated.cases else None
        estimated.code_change = "" if change is None else change.text
        return json_line(estimated)
    _print_estimate(plan, estimated)
    if estimated.cases and (note := code_change_note(about, options=plan.range_options)):
        advise(note)
    advise(estimated.can_show)


def _warn_of_today(plan: RunPlan) -> None:
    if plan.on_miss == "live":
        say(
            "--on-miss live searches today: results and pages from after a case may reach it, above all those without a date."
        )


def _print_estimate(plan: RunPlan, estimated: Estimate) -> None:
    say_result(f"Dry run, no model was called: {plan.label}; {counted(estimated.cases, 'case')}" + (
        f" ({plan.repeat} repeats)" if plan.repeat > 1 else ""))  # fmt: skip
    steps = ", ".join(f"{step} {n}" for step, n in estimated.executed_by_step.most_common()) or "none"
    rows = [
        ("executed", f"{estimated.executed}", f"{money(estimated.cost)} (at most {money(estimated.worst)})", f"changed model calls: {steps}"),
        ("reused", f"{estimated.reused}", f"{money(estimated.avoided)} avoided", "replies in the recording"),
        ("missed", f"{estimated.missed}", "–", f"requests without a recorded reply, in {counted(estimated.missed_cases, 'case')}"),
        ("may follow", f"{estimated.may_follow}", f"up to {money(estimated.may_follow_cost)}", "model calls after the changed ones, if their replies differ"),
        ("may miss", f"{estimated.may_miss}", "–", "searches and pages after the changed ones, if their requests differ"),
    ]  # fmt: skip
    figures_table(("", "calls", "USD", "what"), rows, right=("calls", "USD"))
    if estimated.unpriced:
        say_result(f"{estimated.unpriced} of the calls have no known price. A run with --max-cost would refuse them.")
    if estimated.unreadable or estimated.open:
        say_result(
            f"{counted(estimated.unreadable, 'case')} with an unreadable record and {counted(estimated.open, 'open case')} are left out."
        )


async def _run(
    invocation: Invocation,
    plan: RunPlan,
    file: LogFile | None,
    *,
    max_cost: float | None,
    ask_every_step: bool,
    as_json: bool,
) -> int:
    """Run the plan, print its result and return the exit status: 1 when it stopped before its end.

    ``max_cost`` (USD; None: the monthly budget) bounds it, earlier parts of a resumed run included.
    """
    from evaluation.compare.code_identity import RunCode, code_change_note
    from evaluation.replay.candidates import refuse_offline
    from evaluation.runs.backtest import log_and_tables, run_plan

    def say_code(about: RunCode) -> None:
        if change := code_change_note(about, options=plan.range_options):
            say(change)

    refuse_offline(invocation.settings(), plan.prompts)
    async with log_and_tables(invocation, reads_log=file is None) as (log, tables):
        _warn_of_today(plan)
        limit = Decimal(str(log.settings.deep_analysis_monthly_budget if max_cost is None else max_cost))
        say(
            f"Run {plan.run_id}: {plan.label}; at most {money(limit)} USD. If interrupted, resume it with --run-id {plan.run_id}."
        )
        how: dict[str, Any] = {"ask_every_step": ask_every_step, "file": file, "on_code": say_code}
        ran = await run_plan(log, tables, plan, max_cost=limit, **how)
        _print_ran(plan, ran, as_json=as_json)
    return exits.OK if ran.status == "finished" else exits.FINDING


def _print_ran(plan: RunPlan, ran: RunResult, *, as_json: bool) -> None:
    from evaluation.runs.backtest import summary_of

    if as_json:
        json_line(summary_of(plan, ran))
    else:
        t = ran.totals
        rows = [
            ("replayed", t.replayed, "cases that were replayed to the end"),
            ("missed", t.missed_cases, "cases with a request that has no recorded reply" + (f"; {t.left_out} left out" if t.left_out else "")),
            ("failed", t.failed, "cases that could not be replayed"),
            ("refused", t.refused, "cases whose signal uses evidence from after the case"),
            ("executed", t.executed, f"calls, {money(t.cost)} USD" + (f", {t.unpriced_calls} of unknown price" if t.unpriced_calls else "")),
            ("reused", t.reused, f"calls, {money(t.avoided)} USD avoided"),
            ("look-ahead", t.look_ahead, "evidence, memories and prices from after the case, refused: a lower bound"),
            ("undated", t.undated, "results and pages without a date, which may be from after the case"),
            ("after cutoff", "unknown" if t.unknown_cutoffs else t.after_cutoff, "cases from before the model's training cutoff; it may know their outcome"
             + (f" (no cutoff is known of {', '.join(sorted(t.unknown_cutoffs))})" if t.unknown_cutoffs else "")),
        ]  # fmt: skip
        figures_table(("", "number", "what"), rows, title=f"Run {plan.run_id}: {ran.status}", right=("number",))
        if ran.held:
            say_result(f"{counted(ran.held, 'case')} were already on the run's topic and were not paid for again.")
        _say_what_to_compare(plan, ran)
    if ran.status != "finished":
        say(
            f"Stopped: the rest of --max-cost does not cover the next call. {counted(ran.left, 'case')} left. Resume with "
            f"--run-id {plan.run_id}, the same options and a larger --max-cost."
        )


def _say_what_to_compare(plan: RunPlan, ran: RunResult) -> None:
    from evaluation.compare.code_identity import code_change
    from evaluation.declaration import option_of_log

    if ran.about.baseline and code_change(ran.about.recording, ran.about) is not None:
        say_result(f"This run is a baseline of the current code. Compare runs of a changed prompt with {plan.run_id}.")
    elif ran.status == "finished":
        if ran.totals.other_model and not plan.prompts and not plan.models:
            say_result(
                f"This run is not a baseline: other models than the recorded ones answered {counted(ran.totals.other_model, 'call')}. "
                "For a baseline, use the models of the recording."
            )
        log_option = option_of_log(plan.log)
        explanation = f" (as-it-was: a run of the same log without changes, made with {command_name()} backtest run {log_option}--run-id as-it-was)"
        base = "as-it-was" if log_option else "live"
        if base != plan.run_id:
            say_result(
                f"Next: {command_name()} backtest compare {base} {plan.run_id}{explanation if log_option else ''}"
            )


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

    work = verify_log(of(ctx), sample=sample, file=file, cases=cases, processes=processes, research=research)
    result = run(work, interrupted=READS_ONLY)
    if as_json:
        json_line(
            {
                name: getattr(result, name)
                for name in ("cases", "identical", "other_rules", "calls", "misses", "seconds")
            }
        )
    else:
        show_verified(result)
    raise typer.Exit(exits.OK if result.clean and result.cases else exits.FINDING)


def show_verified(result: VerifyResult) -> None:
    if result.differences:
        table(
            ("case", "status", "first differs at", "reason"),
            [(d.case_id, d.status, d.diverged_at, d.reason) for d in result.differences],
            title="Cases that were not repeated exactly (at most 20)",
        )
    say_result(
        f"{result.identical:,} of {counted(result.cases, 'case')} were repeated byte for byte: {counted(result.calls, 'call')}, "
        f"{counted(result.misses, 'miss')}, {result.seconds:.1f} s; {counted(result.look_ahead, 'piece')} of later information refused."
    )
    if result.diverged > result.cases - result.identical:
        say_result(f"In {counted(result.diverged, 'case')} some event before the signal differs from the recording.")
    if result.other_rules:
        say_result(
            f"{counted(result.other_rules, 'case')} followed other judgement rules: this log is no baseline for this code. "
            "Record a new one, or verify it with the code of its time; `backtest run` decides its cases by today's rules."
        )
    if not result.cases:
        say_result("No case has ended in this log: publish news first, or verify the shipped log with --sample.")


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


command(backtest, "list")(list_runs)
for read in (show, watch, trials):
    command(backtest)(read)
for compared in (compare, gate, power):
    backtest.command()(compared)
for priced in (pnl, study):
    command(backtest, interrupted=READS_ONLY)(priced)
