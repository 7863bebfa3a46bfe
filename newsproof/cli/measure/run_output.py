"""Terminal output of the backtest commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal

from evaluation.compare.code_identity import RunCode, code_change, code_change_note
from evaluation.compare.compare_runs import Power, describe_sample_power
from evaluation.compare.comparison import Comparison
from evaluation.compare.run_records import read_runs, run_code_of
from evaluation.compare.terminal import figure
from evaluation.compare.terms import PRIMARY
from evaluation.compare.watch import WatchResult, describe_delta, describe_watch, look_at_run, watch_of
from evaluation.declared import option_of_log
from evaluation.looks import read_looks
from evaluation.replay.candidates import OFFLINE, reads_no_prompt, refuse_offline
from evaluation.replay.log_file import LogFile
from evaluation.replay.verify import VerifyResult
from evaluation.runs.backtest import RunResult, dry_run, log_and_tables, run_plan, summary_of
from evaluation.runs.estimate import Estimate
from evaluation.runs.plan import RunPlan
from newsproof.app import exits
from newsproof.app.data_access import database
from newsproof.app.invocation import Invocation
from newsproof.app.servers import say_on_stderr as say
from newsproof.app.sheet import advise, figures_table, json_line, money, say_result, table
from newsproof.app.terminal import command_name
from newsproof.report.run_name import run_name
from schemas.errors import ConfigError
from schemas.ids import LIVE_RUN
from schemas.printable import counted


async def show_dry_run(
    invocation: Invocation,
    plan: RunPlan,
    *,
    ask_every_step: bool,
    as_json: bool,
    file: LogFile | None = None,
) -> None:
    """Print the estimate of a plan, and what its sample can show. ``file`` is a log file to use in place of the journal."""
    async with log_and_tables(invocation, reads_log=file is None) as (log, tables):
        _warn_of_today(plan)
        if reads_no_prompt(log.settings, plan.prompts):
            say(f"Only the estimate is possible: {OFFLINE}.")
        found, about, cases = await dry_run(log, tables, plan, ask_every_step=ask_every_step, file=file)
        found.can_show = await describe_sample_power(tables, cases, plan.primary or PRIMARY, log.settings.profit_cap)
        if as_json:
            change = code_change(about.recording, about) if found.cases else None
            found.code_change = "" if change is None else change.text
            json_line(found)
            return
        _print_estimate(plan, found)
        if found.cases and (said := code_change_note(about, options=plan.range_options)):
            advise(said)
        advise(found.can_show)


def _warn_of_today(plan: RunPlan) -> None:
    if plan.on_miss == "live":
        say(
            "--on-miss live searches today: results and pages from after a case may reach it, above all those without a date."
        )


def _print_estimate(plan: RunPlan, found: Estimate) -> None:
    say_result(f"Dry run, no model was called: {plan.label}; {counted(found.cases, 'case')}" + (
        f" ({plan.repeat} repeats)" if plan.repeat > 1 else ""))  # fmt: skip
    steps = ", ".join(f"{step} {n}" for step, n in found.executed_by_step.most_common()) or "none"
    rows = [
        ("executed", f"{found.executed}", f"{money(found.cost)} (at most {money(found.worst)})", f"changed model calls: {steps}"),
        ("reused", f"{found.reused}", f"{money(found.avoided)} avoided", "replies in the recording"),
        ("missed", f"{found.missed}", "–", f"requests without a recorded reply, in {counted(found.missed_cases, 'case')}"),
        ("may follow", f"{found.may_follow}", f"up to {money(found.may_follow_cost)}", "model calls after the changed ones, if their replies differ"),
        ("may miss", f"{found.may_miss}", "–", "searches and pages after the changed ones, if their requests differ"),
    ]  # fmt: skip
    figures_table(("", "calls", "USD", "what"), rows, right=("calls", "USD"))
    if found.unpriced:
        say_result(f"{found.unpriced} of the calls have no known price. A run with --max-cost would refuse them.")
    if found.unreadable or found.open:
        say_result(
            f"{counted(found.unreadable, 'case')} with an unreadable record and {counted(found.open, 'open case')} are left out."
        )


async def show_run(
    invocation: Invocation,
    plan: RunPlan,
    *,
    max_cost: float | None,
    ask_every_step: bool,
    as_json: bool,
    file: LogFile | None = None,
) -> int:
    """Run the plan, print its result and return the exit status: 1 when it stopped before its end.

    ``max_cost`` (USD; None: the monthly budget) bounds it, earlier parts of a resumed run included.
    """
    refuse_offline(invocation.settings(), plan.prompts)
    async with log_and_tables(invocation, reads_log=file is None) as (log, tables):
        _warn_of_today(plan)
        limit = Decimal(str(log.settings.deep_analysis_monthly_budget if max_cost is None else max_cost))
        say(
            f"Run {plan.run_id}: {plan.label}; at most {money(limit)} USD. If interrupted, resume it with --run-id {plan.run_id}."
        )
        said = _code_said(plan)
        ran = await run_plan(log, tables, plan, max_cost=limit, ask_every_step=ask_every_step, file=file, on_code=said)
        _show_ran(plan, ran, as_json=as_json)
    return exits.OK if ran.status == "finished" else exits.FINDING


def _code_said(plan: RunPlan) -> Callable[[RunCode], None]:
    def said(about: RunCode) -> None:
        if change := code_change_note(about, options=plan.range_options):
            say(change)

    return said


def _show_ran(plan: RunPlan, ran: RunResult, *, as_json: bool) -> None:
    summary = summary_of(plan, ran)
    if as_json:
        json_line(summary)
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
        if ran.about.baseline and code_change(ran.about.recording, ran.about) is not None:
            say_result(
                f"This run is a baseline of the current code. Compare runs of a changed prompt with {plan.run_id}."
            )
        elif ran.status == "finished":
            option = option_of_log(plan.log)
            said = f" (as-it-was: a run of the same log without changes, made with {command_name()} backtest run {option}--run-id as-it-was)"
            base = "as-it-was" if option else "live"
            if base != plan.run_id:
                say_result(f"Next: {command_name()} backtest compare {base} {plan.run_id}{said if option else ''}")
    if ran.status != "finished":
        say(
            f"Stopped: the rest of --max-cost does not cover the next call. {counted(ran.left, 'case')} left. Resume with "
            f"--run-id {plan.run_id}, the same options and a larger --max-cost."
        )


async def show_list(invocation: Invocation, *, as_json: bool) -> None:
    async with log_and_tables(invocation) as (_, tables):
        runs = await read_runs(tables)
    if as_json:
        for one in runs:
            json_line(one)
        return
    columns = ("run", "change", "status", "cases", "executed", "reused", "missed", "USD", "avoided", "started (UTC)")
    rows = [
        (r["run_id"], r["label"], r["status"], r["cases"], r["executed"], r["reused"], r["missed"], money(r["cost_usd"]),
         money(r["avoided_cost_usd"]), f"{r['started_at']:%Y-%m-%d %H:%M:%S}")
        for r in runs
    ]  # fmt: skip
    figures_table(
        columns,
        rows,
        title=counted(len(runs), "run"),
        right=("cases", "executed", "reused", "missed", "USD", "avoided"),
    )


async def show_one(invocation: Invocation, run_id: str, *, as_json: bool) -> None:
    """Print one run.

    Raises:
        ConfigError: the run does not exist.
    """
    async with log_and_tables(invocation) as (_, tables):
        runs = await read_runs(tables, run_id)
        if not runs:
            known = ", ".join(r["run_id"] for r in (await read_runs(tables))[:8]) or "none yet"
            raise ConfigError(f"there is no run {run_id!r}; existing runs: {known} (`newsproof backtest list`)")
        states = await tables.query(_STATES, {"run_id": run_id})
        others = await tables.query(_OTHERS, {"run_id": run_id})
        about = run_code_of(runs[0])
    if as_json:
        json_line({**runs[0], "cases_by_status": dict(states.rows), "not_replayed": others.dicts()})
        return
    one = runs[0]
    say_result(f"Run {run_id}: {one['label']}, {one['status']}; code {one['code_version']}")
    if said := about.recorded_code and code_change_note(about):
        say_result(said)
    say_result(f"Cases published {one['cases_from']:%Y-%m-%d %H:%M} to {one['cases_to']:%Y-%m-%d %H:%M} UTC")
    figures_table(("status", "cases"), states.rows, right=("cases",))
    figures_table(("run", "executed", "reused", "missed", "USD", "avoided USD"),
          [(run_id, one["executed"], one["reused"], one["missed"], money(one["cost_usd"]), money(one["avoided_cost_usd"]))],
          right=("executed", "reused", "missed", "USD", "avoided USD"))  # fmt: skip
    if others.rows:
        figures_table(
            ("case", "repeat", "status", "reason"),
            others.rows,
            title="Cases that were not replayed to the end (at most 20)",
        )


_STATES = "SELECT status, count() FROM run_cases FINAL WHERE run_id = {run_id:String} GROUP BY status ORDER BY status"
_OTHERS = """SELECT case_id, repeat, status, reason FROM run_cases FINAL
WHERE run_id = {run_id:String} AND status != 'replayed' ORDER BY case_id, repeat LIMIT 20"""


async def show_looks(invocation: Invocation, *, as_json: bool) -> None:
    """Print the ledger of looks, the first one first."""
    async with log_and_tables(invocation) as (_, tables):
        looks = await read_looks(tables)
    if as_json:
        for one in looks:
            json_line(one)
        return
    columns = ("first look (UTC)", "runs", "change", "candidate", "cases", "earlier", "p-values", "options")
    rows = [
        (f"{one.looked_at:%Y-%m-%d %H:%M:%S}", " ".join(one.runs), one.label, " ".join(c[:8] for c in one.candidates), one.cases,
         one.earlier, "none" if one.tuned else f"x {one.factor}", one.options)
        for one in looks
    ]  # fmt: skip
    figures_table(columns, rows, title=counted(len(rows), "look"), right=("cases", "earlier"))


async def show_watch(invocation: Invocation, run_id: str, *, as_json: bool) -> None:
    """Print the verdict on a watched run so far.

    Raises:
        ConfigError: the run does not exist, has no metric to be watched by, or has no case beside live yet.
    """
    async with database(invocation, admin=True) as tables:
        watch = await watch_of(tables, run_id)
        seen = await look_at_run(tables, run_id, watch, invocation.settings().profit_cap)
        live = await run_name(tables, LIVE_RUN)
    if as_json:
        json_line(seen)
    else:
        _print_watch(seen, live)


def _print_watch(seen: WatchResult, live: str) -> None:
    def figure(value: float | None) -> str:
        return "–" if value is None else f"{value:+.4g}"

    rows = [
        ("candidate minus live", describe_delta(seen), f"mean over blocks of {seen.block_days} UTC {'day' if seen.block_days == 1 else 'days'}"),
        ("interval", f"{figure(seen.low)} … {figure(seen.high)}", f"{100 * seen.level:g} %; valid at all looks together"),
        ("blocks", f"{seen.blocks}", f"closed blocks; the first interval needs {seen.first_block}, and the newest block is still open"),
        ("cases", f"{seen.cases}", "measured, open blocks included"),
    ]  # fmt: skip
    table(("", "", "what"), rows, title=f"{seen.metric}: {seen.run_id} compared with {live}", right=("",))
    if seen.sides:
        say_result(f"{seen.sides[0].upper()}{seen.sides[1:]}.")
    if seen.code_change:
        say_result(f"! {seen.code_change}; a difference may be due to the code")
    say_result(f"Verdict: {describe_watch(seen)}.")
    if seen.stop:
        say_result(f"The stop rule ({seen.stop_when}) holds: the run ends.")


def show_verified(found: VerifyResult) -> None:
    if found.differences:
        table(
            ("case", "status", "first differs at", "reason"),
            [(d.case_id, d.status, d.diverged_at, d.reason) for d in found.differences],
            title="Cases that differ from the recording",
        )
    say_result(
        f"{found.identical:,} of {counted(found.cases, 'case')} came out byte for byte as recorded: {counted(found.calls, 'call')}, "
        f"{counted(found.misses, 'miss')}, {found.seconds:.1f} s; {counted(found.look_ahead, 'piece')} of later information refused."
    )
    if found.diverged > found.cases - found.identical:
        say_result(f"In {counted(found.diverged, 'case')} some event before the signal differs from the recording.")
    if found.other_rules:
        say_result(
            f"{counted(found.other_rules, 'case')} decided by other judgement rules: this log is no baseline for this code. "
            "Record a new one, or verify it with the code of its time; `backtest run` decides its cases by today's rules."
        )
    if not found.cases:
        say_result("No case has ended in this log: publish news first, or verify the shipped log with --sample.")


def show_power(found: Comparison, every: Sequence[Power], *, as_json: bool) -> None:
    """Print the power of the sample."""
    if as_json:
        json_line({"a": found.a, "b": found.b, "metrics": every})
        return
    by_label = {m.label: m for m in found.metrics}
    rows = [
        (
            one.metric,
            "–" if one.detectable is None else figure(by_label[one.metric], one.detectable),
            f"{one.cases:,}",
            f"{one.blocks:,}",
            *("–" if value is None else f"{value:,}" for value in (one.wanted, one.needed_blocks, one.needed_cases)),
            one.note,
        )
        for one in every
        if one.cases
    ]
    columns = ("metric", "detectable", "cases", "blocks", "wanted", "blocks needed", "cases needed", "")
    title = f"{found.name_a} against {found.name_b}: differences detected with a probability of 80 % (tests at 5 %)"
    figures_table(columns, rows, title=title, right=columns[1:-1])
    say_result("Profit is less sensitive than a hit rate: the size of a gain varies more than its sign.")
