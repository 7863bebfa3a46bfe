"""Commands on finished and running runs: ``newsproof backtest compare``, ``gate``, ``power``, ``list``, ``show``, ``trials``, ``watch``."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from newsproof.app.data_access import database
from newsproof.app.invocation import READS_ONLY, Invocation, of, run
from newsproof.app.sheet import (
    SECOND,
    UNWRAPPED,
    Columns,
    Sheet,
    Unit,
    advise,
    figures_table,
    json_line,
    money,
    say_result,
    table,
)
from newsproof.cli.options import JsonLastLine, Latency, Seed, argument, option
from schemas.errors import ConfigError
from schemas.printable import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evaluation.compare.compare_runs import Power
    from evaluation.compare.comparison import Comparison
    from evaluation.compare.terms import Scoring
    from evaluation.compare.watch import WatchResult


class ReportFormat(StrEnum):
    """Output format of a comparison."""

    table = "table"
    json = "json"
    md = "md"
    html = "html"


A = Annotated[str, argument("Baseline: a run id or `live`.", show_default=False)]
B = Annotated[str, argument("Candidate: a run id or `live`.", show_default=False)]
Primary = Annotated[
    str | None,
    option(
        "Primary metric, tested on its own: profit@24h, profit@7d, hit_rate@1h, brier@4h …, or profit (each "
        "signal's own horizon). Default: the one that run B declared, else profit@24h."
    ),
]
Cap = Annotated[
    float | None, option("Maximum gain or loss of one case, as a share. Default: PROFIT_CAP.", min=0.0001, max=10.0)
]
Cost = Annotated[
    float, option("Cost of one trade, entry and exit together, in basis points of its value.", min=0, max=1_000)
]
Format = Annotated[ReportFormat, option("json: one object. html: one file. md: for a pull request.")]
Draws = Annotated[int, option("Number of random sign flips per test.", min=199, max=99_999)]
AllowCodeChange = Annotated[
    bool, option("Compare with `live` even if other code recorded it. The verdict says so.", "--allow-code-change")
]


def compare(
    ctx: typer.Context,
    a: A,
    b: B,
    format: Format = ReportFormat.table,
    differences: Annotated[
        int, option("Number of largest differences to show with their texts.", min=0, max=1_000)
    ] = 10,
    primary: Primary = None,
    cap: Cap = None,
    trade_cost: Cost = 20.0,
    latency: Latency = 30.0,
    allow_code_change: AllowCodeChange = False,
    draws: Draws = 9_999,
    seed: Seed = 0,
) -> None:
    """Test whether run B judges differently from run A.

    The report says how certain each difference is. See docs/verdict.md.
    """
    from evaluation.compare.compare_runs import print_comparison

    how = _scoring(ctx, primary, cap, trade_cost, draws, seed)
    comparison = _read(ctx, a, b, how, latency, differences=differences, allow_code_change=allow_code_change)
    print_comparison(comparison, format)


def gate(
    ctx: typer.Context,
    a: A,
    b: B,
    margin: Annotated[
        list[str] | None,
        option(
            "Largest acceptable loss: a number for the primary metric, or tail=0.03, truth_errors=0.05, "
            "truth_brier=0.02, action_rate=0.1, delay=60000 (milliseconds a case) or profit_delayed=0.005. Repeatable. "
            "Default: these, and profit=0.005.",
            metavar="[METRIC=]NUMBER",
        ),
    ] = None,
    format: Format = ReportFormat.table,
    primary: Primary = None,
    cap: Cap = None,
    trade_cost: Cost = 20.0,
    latency: Latency = 30.0,
    allow_code_change: AllowCodeChange = False,
    draws: Draws = 9_999,
    seed: Seed = 0,
) -> None:
    """Decide for a CI job whether run B may replace run A.

    Compares profit, tail, truth, coverage and delay.

    Exit status 0 only if the data rules out a loss above each margin, 100 if B loses, 101 without enough evidence.
    """
    from evaluation.compare.compare_runs import gate_status, parse_margins, print_comparison

    margins = parse_margins(margin or ())
    how = _scoring(ctx, primary, cap, trade_cost, draws, seed)
    comparison = _read(ctx, a, b, how, latency, allow_code_change=allow_code_change)
    status, why = gate_status(comparison, margins)
    if format == ReportFormat.table:
        lines = (*(f"! {warning}" for warning in comparison.warnings), f"Verdict: {comparison.verdict}.")
        for line in (*lines, *(f"Gate {reason}." for reason in why)):
            advise(line)
    else:
        print_comparison(comparison, format)
    raise typer.Exit(status)


def power(
    ctx: typer.Context,
    a: A,
    b: B,
    difference: Annotated[
        list[str] | None, option("METRIC=DIFFERENCE to detect, such as profit=0.002. Repeatable.")
    ] = None,
    as_json: JsonLastLine = False,
    primary: Primary = None,
    cap: Cap = None,
    trade_cost: Cost = 20.0,
    latency: Latency = 30.0,
    draws: Draws = 9_999,
    seed: Seed = 0,
) -> None:
    """Show which differences this sample can detect.

    Also shows how many days of news a given difference needs.
    """
    from evaluation.compare.compare_runs import parse_differences, power_of

    wanted = parse_differences(difference or ())
    how = _scoring(ctx, primary, cap, trade_cost, draws, seed)
    comparison = _read(ctx, a, b, how, latency, differences=0, record=False, allow_code_change=True)
    _print_power(comparison, power_of(comparison, wanted), as_json=as_json)


def _read(ctx: typer.Context, a: str, b: str, how: Scoring, latency_s: float, **given: Any) -> Comparison:
    from evaluation.compare.compare_runs import read_comparison

    work = read_comparison(of(ctx), a, b, how=how, latency_s=latency_s, **given)
    return run(work, interrupted=READS_ONLY)


def _scoring(
    ctx: typer.Context, primary: str | None, cap: float | None, trade_cost: float, draws: int, seed: int
) -> Scoring:
    """Return the scoring of these options and the settings. ``trade_cost`` is in basis points."""
    from evaluation.compare.metrics import parse_primary
    from evaluation.compare.terms import Scoring

    chosen = parse_primary(primary) if primary else ""
    cap = of(ctx).settings().profit_cap if cap is None else cap
    return Scoring(primary=chosen, cap=cap, trade_cost=trade_cost / 1e4, seed=seed, draws=draws)


def _print_power(comparison: Comparison, every: Sequence[Power], *, as_json: bool) -> None:
    from evaluation.compare.terminal import figure

    if as_json:
        json_line({"a": comparison.a, "b": comparison.b, "metrics": every})
        return
    by_label = {m.label: m for m in comparison.metrics}
    rows = [
        (
            detected.metric,
            "–" if detected.detectable is None else figure(by_label[detected.metric], detected.detectable),
            f"{detected.cases:,}",
            f"{detected.blocks:,}",
            *(
                "–" if value is None else f"{value:,}"
                for value in (detected.wanted, detected.needed_blocks, detected.needed_cases)
            ),
            detected.note,
        )
        for detected in every
        if detected.cases
    ]
    columns = ("metric", "detectable", "cases", "blocks", "wanted", "blocks needed", "cases needed", "")
    title = f"{comparison.name_a} against {comparison.name_b}: differences detected with a probability of 80 % (tests at 5 %)"
    figures_table(columns, rows, title=title, right=columns[1:-1])
    say_result("Profit is less sensitive than a hit rate: the size of a gain varies more than its sign.")


_USD = Unit(money)
_COUNTS: Columns = {
    **{name: name for name in ("executed", "reused", "missed")},
    "USD": ("cost_usd", _USD),
    "avoided USD": ("avoided_cost_usd", _USD),
}


async def list_runs(invocation: Invocation, as_json: JsonLastLine = False) -> None:
    """List runs, newest first."""
    from evaluation.compare.run_records import read_runs
    from evaluation.runs.backtest import log_and_tables

    async with log_and_tables(invocation) as (_, tables):
        runs = await read_runs(tables)
    columns: Columns = {"run": "run_id", "change": "label", "status": "status", "cases": "cases", **_COUNTS}
    columns = {**columns, "started (UTC)": ("started_at", SECOND)}
    Sheet.of(runs, columns, title=counted(len(runs), "run")).show(as_json=as_json, piped=UNWRAPPED)


async def show(
    invocation: Invocation,
    run_id: Annotated[str, argument("Run id from `backtest list`.", metavar="RUN")],
    as_json: JsonLastLine = False,
) -> None:
    """Show a run: its change, results and unfinished cases.

    Raises:
        ConfigError: the run does not exist.
    """
    from evaluation.compare.code_identity import code_change_note
    from evaluation.compare.run_records import read_run, read_runs, run_code_of
    from evaluation.runs.backtest import log_and_tables

    async with log_and_tables(invocation) as (_, tables):
        if (row := await read_run(tables, run_id)) is None:
            known = ", ".join(r["run_id"] for r in (await read_runs(tables))[:8]) or "none yet"
            raise ConfigError(f"there is no run {run_id!r}; existing runs: {known} (`newsproof backtest list`)")
    if as_json:
        return json_line(row)
    about = run_code_of(row)
    say_result(f"Run {run_id}: {row['label']}, {row['status']}; code {row['code_version']}")
    if note := about.recorded_code and code_change_note(about):
        say_result(note)
    say_result(f"Cases published {row['cases_from']:%Y-%m-%d %H:%M} to {row['cases_to']:%Y-%m-%d %H:%M} UTC")
    figures_table(("status", "cases"), row["cases_by_status"].items(), right=("cases",))
    Sheet.of([row], {"run": "run_id", **_COUNTS}).print(piped=UNWRAPPED)
    if row["not_replayed"]:
        others: Columns = {"case": "case_id", "repeat": "repeat", "status": "status", "reason": "reason"}
        title = "Cases that were not replayed to the end (at most 20)"
        Sheet.of(row["not_replayed"], others, title=title).print(piped=UNWRAPPED)


async def trials(invocation: Invocation, as_json: JsonLastLine = False) -> None:
    """List every look at results, and what it may claim.

    A look is a `compare`, `gate`, `watch`, `pnl`, `study` or `labels report` on a run with a changed prompt or model. The same look at the same data is listed once.
    """
    from evaluation.looks import read_looks
    from evaluation.runs.backtest import log_and_tables

    async with log_and_tables(invocation) as (_, tables):
        looks = await read_looks(tables)
    columns: Columns = {
        "first look (UTC)": ("looked_at", SECOND),
        "runs": lambda trial: " ".join(trial.runs),
        "change": "label",
        "candidate": lambda trial: " ".join(c[:8] for c in trial.candidates),
        "cases": "cases",
        "earlier": "earlier",
        "p-values": lambda trial: "none" if trial.tuned else f"x {trial.factor}",
        "options": "options",
    }
    Sheet.of(looks, columns, title=counted(len(looks), "look")).show(as_json=as_json, piped=UNWRAPPED)


async def watch(
    invocation: Invocation,
    run_id: Annotated[str, argument("Id of a shadow run, running or finished.", metavar="RUN")],
    as_json: JsonLastLine = False,
) -> None:
    """Compare a shadow run with live so far.

    The confidence interval stays valid no matter how often you look.

    Raises:
        ConfigError: the run does not exist, has no metric to be watched by, or has no case beside live yet.
    """
    from evaluation.compare.watch import look_at_run, watch_of
    from newsproof.report.run_name import run_name
    from schemas.ids import LIVE_RUN

    async with database(invocation, admin=True) as tables:
        watched = await watch_of(tables, run_id)
        seen = await look_at_run(tables, run_id, watched, invocation.settings().profit_cap)
        live = await run_name(tables, LIVE_RUN)
    json_line(seen) if as_json else _print_watch(seen, live)


def _print_watch(seen: WatchResult, live: str) -> None:
    from evaluation.compare.watch import describe_delta, describe_watch

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
