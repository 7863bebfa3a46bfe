"""``newsproof backtest compare``, from its arguments to its exit status."""

from __future__ import annotations

from typing import Any

import msgspec

from evaluation.backtest.code_identity import CodeChange
from evaluation.backtest.run.claims import claim_of
from evaluation.backtest.run.code_check import read_code_change
from evaluation.backtest.run.ledger import read_trials
from evaluation.compare.claiming import claimed
from evaluation.compare.comparison import Comparison, compare, with_texts
from evaluation.compare.documents import as_json, as_markdown
from evaluation.compare.formats import ReportFormat
from evaluation.compare.metrics import MetricResult
from evaluation.compare.page import as_html
from evaluation.compare.pricing import LATENCY_S
from evaluation.compare.reading import other_models, read_returns, read_runs, read_texts, read_titles
from evaluation.compare.rows import RunRows
from evaluation.compare.terminal import show_table
from evaluation.compare.terms import PRIMARY, Scoring
from evaluation.compare.texts import declared_primary, visible
from infra.clickhouse.client import ClickHouse
from newsproof.app import exits
from newsproof.app.data_access import database
from newsproof.app.invocation import Invocation, say_result
from schemas.ids import LIVE_RUN

_DOCUMENTS = {ReportFormat.json: as_json, ReportFormat.md: as_markdown, ReportFormat.html: as_html}
_OTHER_LOG = (
    "run {run} replays the log that ships with the project, and live is this installation's journal: two recordings of the same "
    "news, so a difference is not of the prompt alone; compare with a run of that log without a change (newsproof backtest run "
    "--sample-log --run-id as-it-was)"
)
_INVENTED = (
    "the prices are invented (a synthetic import stands): profit, hits and Brier scores say nothing of any market"
)


async def compare_runs(tables: ClickHouse, a: str, b: str, **how: Any) -> Comparison:
    """Return the comparison of :func:`compare_for_gate`, which has its keywords."""
    _, shown = await compare_for_gate(tables, a, b, **how)
    return shown


async def compare_for_gate(
    tables: ClickHouse,
    a: str,
    b: str,
    *,
    how: Scoring | None = None,
    differences: int = 10,
    latency_s: float = LATENCY_S,
    allow_code_change: bool = False,
) -> tuple[MetricResult, Comparison]:
    """Compare two runs of the tables (``live``: the live judgements); return the primary metric as it is, and the comparison.

    Keywords as in :func:`comparison.compare`, and ``latency_s``: seconds from when news was knowable to the entry, for news that
    was not judged live. What the ledger of trials does not allow is not claimed. Without a primary metric in ``how``, that which run B declared, else profit.

    A gate looks for a loss. Having tuned on a period can hide one there and not make one, so it looks before the ledger of
    trials takes the p values away.

    Raises:
        ConfigError: a run does not exist, no case worked in both, or one is ``live`` and other code recorded it than
            decided the other, unless ``allow_code_change``.
    """
    first, second = await read_runs(tables, a, b)
    trials = await read_trials(tables)
    of_sample = [t.run_id for t in trials if t.log == "sample" and {a, b} == {t.run_id, LIVE_RUN}]
    # Another recording was decided by another code, too: of that nothing is to be said.
    change = None if of_sample else await read_code_change(tables, a, b, allow=allow_code_change)
    returns = await read_returns(tables, (first, second), latency_s=latency_s)
    how, said = _with_primary(how or Scoring(primary=""), second)
    said += [_OTHER_LOG.format(run=visible(run)) for run in of_sample] + ([_INVENTED] if returns.invented else [])
    said += await other_models(tables, a, b)
    found = compare(first, second, returns, how=how, differences=differences, warnings=said)
    shown = claimed(found, [claim_of(trials, run) for run in (a, b)])
    texts, titles = await read_texts(tables, a, b, shown), await read_titles(tables, shown)
    return found.primary, with_texts(_with_code_change(shown, change), texts, titles)


def _with_primary(how: Scoring, b: RunRows) -> tuple[Scoring, list[str]]:
    """Return how to score, with the primary metric, and what is to be said of its choice."""
    declared = declared_primary(b.changes)
    if not how.primary:
        return msgspec.structs.replace(how, primary=declared or PRIMARY), []
    if how.primary == (declared or PRIMARY):
        return how, []
    meant = (
        f"run {visible(b.run_id)} declared {visible(declared)}"
        if declared
        else f"nothing was declared, which means {PRIMARY}"
    )
    said = f"{how.primary} was made the primary metric afterwards ({meant}): chosen by what it shows, it proves nothing"
    return how, [said]


def _with_code_change(found: Comparison, change: CodeChange | None) -> Comparison:
    if change is None:
        return found
    who = "it is unknown whether other code" if change.is_unknown else "other code"
    return msgspec.structs.replace(
        found,
        warnings=(visible(change.text), *found.warnings),
        verdict=f"{found.verdict}; {who} decided {change.b} than {change.a}, so a difference may not be of the prompt alone",
    )


async def read_comparison(invocation: Invocation, a: str, b: str, **keywords: Any) -> tuple[MetricResult, Comparison]:
    """Compare two runs on the configured servers, as :func:`compare_for_gate` does."""
    async with database(invocation, admin=True) as tables:
        return await compare_for_gate(tables, a, b, **keywords)


def show(result: Comparison, format: ReportFormat) -> None:
    """Print the comparison."""
    if format is ReportFormat.table:
        show_table(result)
    else:
        say_result(_DOCUMENTS[format](result).rstrip("\n"))


def gate_status(primary: MetricResult, margin: float | None) -> tuple[int, str]:
    """Return the exit status of a gate, and why: 100 when the primary metric lost, 1 when that cannot be seen, else 0.

    ``margin``: the loss that is acceptable; then a candidate passes only if the whole 95 % interval lies above that loss.
    Without, it passes unless it is worse beyond chance.
    """
    if primary.verdict == "worse":
        return exits.GATE_CLOSED, f"closed: {primary.label} is worse in B"
    if primary.verdict == "identical":
        return exits.OK, f"open: {primary.label} is identical"
    if primary.p is None:
        return exits.FINDING, f"closed: whether {primary.label} was lost cannot be seen ({primary.note})"
    if primary.delta is None and primary.verdict == "not distinguishable" and margin is None:
        return exits.FINDING, f"closed: whether {primary.label} was lost cannot be seen ({primary.note})"
    if margin is None:
        return exits.OK, f"open: no loss of {primary.label} beyond chance"
    edge = primary.low if primary.better == "higher" else primary.high
    loss = None if edge is None else -edge if primary.better == "higher" else edge
    if loss is None or loss > margin:
        return exits.GATE_CLOSED, f"closed: a loss of {primary.label} of more than {margin:g} is not excluded"
    return exits.OK, f"open: a loss of {primary.label} of more than {margin:g} is excluded (95 %)"
