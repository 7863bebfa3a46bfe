"""``newsproof backtest compare``, ``gate`` and ``power``, from their arguments to their output.

Power is what a sample can show: the smallest difference that it would detect, and how many more cases another difference needs.
It is computed from the block sums of the two runs at hand; nothing is assumed of how news or prices behave.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from evaluation.compare.code_identity import CodeChange
from evaluation.compare.comparison import Comparison, compare, with_texts
from evaluation.compare.documents import as_html, as_json, as_markdown
from evaluation.compare.inputs import (
    other_models,
    read_returns,
    read_run_rows,
    read_texts,
    read_titles,
    read_truths,
)
from evaluation.compare.metrics import EQUAL, MetricResult, profit_horizon
from evaluation.compare.pairing import pair_cases
from evaluation.compare.run_records import read_code_change
from evaluation.compare.run_rows import RunRows, visible
from evaluation.compare.terminal import show_table
from evaluation.compare.terms import PRIMARY, PROFIT, Scoring
from evaluation.declaration import option_of_log, parse_declaration
from evaluation.looks import look_at
from evaluation.prices.trades import LATENCY_S
from evaluation.statistics.blocks import DAY_S
from infra.clickhouse.client import ClickHouse
from newsproof.app import exits
from newsproof.app.data_access import database
from newsproof.app.invocation import Invocation
from newsproof.app.sheet import say_result
from schemas.errors import ConfigError
from schemas.ids import LIVE_RUN
from schemas.prices import PROFIT_CAP
from schemas.printable import counted

_DOCUMENTS = {"json": as_json, "md": as_markdown, "html": as_html}
_OTHER_LOG = (
    "run {run} replays a log file, but live is this installation's journal, another recording. So a difference is not due to the "
    "prompt alone; compare with an unchanged run of that log (newsproof backtest run {option}--run-id as-it-was)"
)
_INVENTED = (
    "the prices are invented (a synthetic import is active): profit, hits and Brier scores say nothing about any market"
)


async def compare_runs(
    tables: ClickHouse,
    a: str,
    b: str,
    *,
    how: Scoring | None = None,
    differences: int = 10,
    latency_s: float = LATENCY_S,
    allow_code_change: bool = False,
    record: bool = True,
) -> Comparison:
    """Compare two runs of the tables (``live``: the live judgements).

    Keywords as in :func:`comparison.compare`, and ``latency_s``: seconds from the time news was knowable to the entry, for news
    that was not judged live. The comparison claims only what the ledger of looks allows, and is written there unless ``record``
    is False. Without a primary metric in ``how``, it is the one that run B declared, else profit after a day.

    Raises:
        ConfigError: a run does not exist, no case worked in both, or one is ``live`` and other code recorded it than
            decided the other, unless ``allow_code_change``.
    """
    first, second = await read_run_rows(tables, a, b)
    logs = {
        run.run_id: log for run in (first, second) if LIVE_RUN in (a, b) and (log := parse_declaration(run.changes).log)
    }
    # Another recording was decided by another code, too: of that nothing is to be said.
    change = None if logs else await read_code_change(tables, a, b, allow=allow_code_change)
    how, warnings = _with_primary(how or Scoring(primary=""), second)
    delayed_s = profit_horizon(how) or DAY_S
    returns = await read_returns(tables, (first, second), latency_s=latency_s, delayed_s=delayed_s)
    returns = msgspec.structs.replace(returns, truths=await read_truths(tables))
    warnings += [_OTHER_LOG.format(run=visible(run), option=option_of_log(log)) for run, log in logs.items()]
    warnings += [_INVENTED] if returns.invented else []
    warnings += await other_models(tables, a, b)
    pair_cases(first, second)  # refused before it counts as a look
    cases = {row.case_id for row in first.rows}
    truths = sorted((case_id, truth) for case_id, truth in returns.truths.items() if case_id in cases)
    usual, given = (
        msgspec.structs.asdict(scoring) | {"latency_s": s} for scoring, s in ((Scoring(), LATENCY_S), (how, latency_s))
    )
    options = {"compare": {name: value for name, value in given.items() if value != usual[name]}}
    look = await look_at(
        tables, (a, b), options, (first.rows, second.rows, sorted(returns.held.items()), truths), record=record
    )
    if look is not None:
        how = msgspec.structs.replace(how, factor=look.factor, note=look.note)
    comparison = compare(first, second, returns, how=how, differences=differences, warnings=warnings)
    texts, titles = await read_texts(tables, a, b, comparison), await read_titles(tables, comparison)
    return with_texts(_with_code_change(comparison, change), texts, titles)


def _with_primary(how: Scoring, b: RunRows) -> tuple[Scoring, list[str]]:
    """Return the scoring with its primary metric, and warnings about the choice of that metric."""
    chosen = parse_declaration(b.changes).primary
    if not how.primary:
        return msgspec.structs.replace(how, primary=chosen or PRIMARY), []
    if how.primary == (chosen or PRIMARY):
        return how, []
    meant = (
        f"run {visible(b.run_id)} declared {visible(chosen)}"
        if chosen
        else f"it declared none, so its primary metric is {PRIMARY}"
    )
    warning = f"{how.primary} was made the primary metric after the run ({meant}): a metric chosen by its result proves nothing"
    return how, [warning]


def _with_code_change(comparison: Comparison, change: CodeChange | None) -> Comparison:
    if change is None:
        return comparison
    who = "it is unknown whether other code" if change.is_unknown else "other code"
    return msgspec.structs.replace(
        comparison,
        warnings=(visible(change.text), *comparison.warnings),
        verdict=f"{comparison.verdict}; {who} decided {change.b} than {change.a}, so a difference may be due to the code",
    )


async def read_comparison(invocation: Invocation, a: str, b: str, **keywords: Any) -> Comparison:
    """Compare two runs on the configured servers, as :func:`compare_runs` does."""
    async with database(invocation, admin=True) as tables:
        return await compare_runs(tables, a, b, **keywords)


def print_comparison(result: Comparison, format: str) -> None:
    """Print the comparison as a ``table``, ``json``, ``md`` or ``html``."""
    if format == "table":
        show_table(result)
    else:
        say_result(_DOCUMENTS[format](result).rstrip("\n"))


MARGINS = {
    "profit": 0.005, "tail": 0.03, "truth_errors": 0.05, "truth_brier": 0.02, "action_rate": 0.1, "delay": 60_000.0,
    "profit_delayed": 0.005,
}  # fmt: skip
"""Losses that a gate accepts if no ``--margin`` says otherwise: of the primary metric (a profit, or another one that is declared),
of the mean of the worst cases, in truth, of coverage, of time (milliseconds a case), and of profit at each run's own delay."""


def parse_margins(given: Sequence[str]) -> dict[str, float]:
    """Return the margins of a gate. A number alone is the primary metric's, under the name "".

    Raises:
        ConfigError: one is neither a number from 0 on nor ``METRIC=NUMBER`` of a metric that a gate looks at.
    """
    margins = {}
    for text in given:
        label, _, written = text.rpartition("=")
        try:
            number = float(written)
        except ValueError:
            number = math.nan
        if label.strip() not in {"", *MARGINS} or not 0 <= number < math.inf:
            raise ConfigError(
                f"--margin {(label.strip() or text)!r:.60}: write a number from 0 on (for the primary metric) or METRIC=NUMBER, the metric "
                f"one of {', '.join(MARGINS)}"
            )
        margins[label.strip()] = number
    return margins


def gate_status(comparison: Comparison, margins: Mapping[str, float]) -> tuple[int, tuple[str, ...]]:
    """Return the exit status of a gate, and why, a line a metric.

    It is open (0) only if the 95 % intervals of the primary metric, of the tail, of both metrics of truth and of coverage
    exclude a loss above their margin. It is closed (100) if the primary metric is worse beyond chance, or if one of them
    lost more than its margin for certain. Else there is not enough evidence (101).

    It does not open on cases that the ledger of looks allows no claim of. That there is a loss needs none.
    """
    if not comparison.changed_texts and comparison.verdict.startswith("identical"):
        return exits.OK, ("open: B says the same as A in every case",)
    lost, unknown, excluded = [], [], []
    for name in ("", *(name for name in MARGINS if name != comparison.primary.metric)):
        seen = next(m for m in comparison.metrics if name in ("", m.metric))
        unclaimed = seen.p is None and seen.low is not None and seen.verdict not in EQUAL
        margin = margins.get(name, margins.get(seen.metric, MARGINS.get(seen.metric, 0.02)))
        least, most = _losses(seen, comparison)
        what = f"a loss of {seen.label} of more than {margin:g}{' ms' if seen.unit == 'ms' else ''}"
        if (not name and seen.verdict == "worse") or (least is not None and least > margin):
            lost.append(f"closed: {seen.label} is worse in B" if not name else f"closed: {what} is certain")
        elif most is None or most > margin or unclaimed:
            unknown.append(f"not enough evidence: {what} is not excluded{f' ({seen.note})' if seen.note else ''}")
        else:
            excluded.append(f"open: {what} is excluded (95 %)")
    if lost:
        return exits.GATE_CLOSED, tuple(lost)
    return (exits.GATE_UNDECIDED, tuple(unknown)) if unknown else (exits.OK, tuple(excluded))


def _losses(m: MetricResult, comparison: Comparison) -> tuple[float | None, float | None]:
    """Return the least and the largest loss that the interval of a metric holds; None: not known. Acting less is a loss."""
    if m.verdict in EQUAL:
        # Of cases that are not measured, as many may differ as would leave none among those measured once in twenty.
        rest = comparison.changed_texts and m.cases < comparison.comparability.aligned
        return 0.0, (None if m.unit == "ms" else 3.0 / m.cases) if rest else 0.0
    alike = {"truth_errors": "verdict_flips", "truth_brier": "confidence"}.get(m.metric, "")
    if m.verdict == "not measured" and alike and not comparison.comparability.only_a + comparison.comparability.only_b:
        of = next(metric for metric in comparison.metrics if metric.metric == alike)
        return (0.0, 0.0) if of.verdict in EQUAL else (None, None)
    if m.low is None or m.high is None:
        return None, None
    return (m.low, m.high) if m.better == "lower" else (-m.high, -m.low)


class Power(msgspec.Struct, frozen=True, kw_only=True):
    """One metric. ``detectable``: the smallest true difference that such a sample shows in 4 of 5 cases (None: too few blocks).

    ``needed_blocks`` and ``needed_cases``: the blocks of days, with as many cases each as here, that would show ``wanted``; None if
    the cases that are unknown in one run leave more open than that.
    """

    metric: str
    cases: int
    blocks: int
    detectable: float | None
    wanted: float | None
    needed_blocks: int | None
    needed_cases: int | None
    note: str


def parse_differences(given: Sequence[str]) -> dict[str, float]:
    """Return differences by metric from ``METRIC=DIFFERENCE``.

    Raises:
        ConfigError: one has another form.
    """
    differences = {}
    for text in given:
        label, equals, number = text.partition("=")
        try:
            differences[label.strip()] = abs(float(number))
        except ValueError:
            equals = ""
        if not equals or not differences.get(label.strip()):
            raise ConfigError(f"--difference {text!r:.60}: write METRIC=NUMBER above 0, such as profit=0.002")
    return differences


def power_of(comparison: Comparison, wanted: Mapping[str, float]) -> list[Power]:
    """Return the difference that this sample can show in each tested metric, and the sample that would show ``wanted``.

    Raises:
        ConfigError: a wanted metric is none of the comparison's.
    """
    tests = {m.label: m for m in comparison.metrics if m.role != "shown"}
    for label in wanted:
        if label not in tests:
            raise ConfigError(f"--difference {label}=…: there is no such metric; choose one of {', '.join(tests)}")
    return [_power(m, wanted.get(label)) for label, m in tests.items()]


def _power(m: MetricResult, wanted: float | None) -> Power:
    blocks = cases = None
    if wanted and m.detectable is not None and m.delta_low is not None and m.delta_high is not None:
        # The error shrinks with the root of the number of blocks; what is not known in both runs stays as wide as it is.
        gap = m.delta_high - m.delta_low
        if wanted > gap:
            blocks = max(math.ceil(m.blocks * ((m.detectable - gap) / (wanted - gap)) ** 2), 1)
            cases = math.ceil(m.cases * blocks / m.blocks)
    return Power(
        metric=m.label,
        cases=m.cases,
        blocks=m.blocks,
        detectable=m.detectable,
        wanted=wanted,
        needed_blocks=blocks,
        needed_cases=cases,
        note="the same in every case: nothing varies" if m.verdict in EQUAL else m.note,
    )


async def describe_sample_power(
    tables: ClickHouse, cases: Collection[str], primary: str = PRIMARY, cap: float = PROFIT_CAP
) -> str:
    """Return a text on the difference of profit that these cases can show, before any call is paid.

    There is no candidate yet, so its block sums are unknown. This assumes the largest possible ones: those of the live signals
    compared with a candidate that acts on none of them.
    """
    unknown = "The smallest difference in profit that these cases can detect is unknown"
    no_signals = f"{unknown}: ClickHouse has no live signals of these cases."
    try:
        live, _ = await read_run_rows(tables, LIVE_RUN, LIVE_RUN)
    except ConfigError:
        return no_signals
    rows = [row for row in live.rows if row.case_id in cases]
    if not rows:
        return no_signals
    acting = msgspec.structs.replace(live, rows=rows, cases=len(rows))
    observing = msgspec.structs.replace(
        acting, run_id="nothing", rows=[msgspec.structs.replace(row, action="observe") for row in rows]
    )
    of_profit = primary if primary.startswith(PROFIT) else PRIMARY
    returns = await read_returns(tables, [acting])
    m = compare(acting, observing, returns, how=Scoring(primary=of_profit, cap=cap), differences=0).primary
    if m.detectable is None:
        return f"{unknown}: {m.note}."
    return (
        f"{counted(m.cases, 'case')} with live judgements and prices, in {counted(m.blocks, 'block')} of days. If the candidate acted on "
        f"none of them, a difference in {of_profit} of {m.detectable:.5f} a case would be detected with a probability of 80 %. A "
        "candidate that changes fewer cases varies less, so smaller differences are detected (newsproof backtest power)."
    )
