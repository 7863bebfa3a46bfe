"""Report of the demo: the signals; latency, cost and confidence from ClickHouse; the audit."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from agents.text.wording import Language, Told, headings, joined, term
from agents.verification.gate import NEVER_DEEP
from infra.clickhouse.client import ClickHouse
from infra.offline.sample_news import Label
from newsproof.app.hints import as_started
from newsproof.app.invocation import say_result, table
from newsproof.report import narrative
from newsproof.report.data import StepFigures, read_steps
from schemas.ids import LIVE_RUN
from schemas.news import News
from schemas.signals import ACTED_ON, Signal
from streams.audit.audit import AuditReport
from streams.audit.signals import FaultySignal

_BY_TYPE = """
SELECT event_type, signals, mean_preliminary, mean_final, mean_delta, raised, lowered
FROM v_confidence_delta_by_event_type WHERE run_id = {run:String} ORDER BY signals DESC, event_type LIMIT 20"""


class LabelFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What the newest revision of each signal says, against the labels of the sample. ``mixed`` items are counted nowhere.

    ``false_items``, ``true_items``: items labelled false, and true, whether or not a signal came of them.
    ``false_actioned``: false items whose signal is final and says buy or sell. A withdrawn or preliminary one does not.
    ``false_searchable``: false items whose labelled type the gate lets through to a search: all but ``NEVER_DEEP`` (macro,
    other, airdrop, governance, celebrity, scam_alert). ``false_searched``: those of them for which a provider answered at least one search.
    ``true_confirmed``: true items whose verdict is confirmed or likely. A superseded signal keeps its verdict; the
    verdict of one retracted by a denial is refuted.
    """

    false_items: int
    false_actioned: int
    false_searchable: int
    false_searched: int
    true_items: int
    true_confirmed: int


def against_labels(labels: Mapping[str, Label], signals: Iterable[Signal], searched: Collection[str]) -> LabelFigures:
    """Return the figures. ``labels`` by case id; ``signals``: their revisions; ``searched``: cases with an answer."""
    newest: dict[str, Signal] = {}
    for one in signals:
        if one.case_id not in newest or newest[one.case_id].revision < one.revision:
            newest[one.case_id] = one
    false = [case for case, label in labels.items() if label.truth == "false"]
    true = [case for case, label in labels.items() if label.truth == "true"]
    searchable = [case for case in false if labels[case].event_type not in NEVER_DEEP]
    said = [newest[case] for case in false if case in newest]
    return LabelFigures(
        false_items=len(false),
        false_actioned=sum(one.stage == "final" and one.action != "observe" for one in said),
        false_searchable=len(searchable),
        false_searched=sum(case in searched for case in searchable),
        true_items=len(true),
        true_confirmed=sum(case in newest and newest[case].verdict in ACTED_ON for case in true),
    )


async def print_report(
    items: Sequence[News],
    signals: Sequence[Signal],
    report: AuditReport,
    tables: ClickHouse,
    figures: LabelFigures,
    language: Language,
) -> None:
    print_signals(signals, {news.case_id: news.identity for news in items}, language=language)
    print_labels(figures)
    await print_analytics(tables)
    print_audit(report)


def print_labels(figures: LabelFigures) -> None:
    rows = [
        ("labelled false", "says buy or sell", f"{figures.false_actioned} of {figures.false_items}"),
        (
            "labelled false",
            "was searched",
            f"{figures.false_searched} of {figures.false_searchable} of searchable types",
        ),
        ("labelled true", "confirmed or likely", f"{figures.true_confirmed} of {figures.true_items}"),
    ]
    table(("items", "whose signal", "how many"), rows, title="Against the labels, which never enter the pipeline")


def print_signals(
    signals: Sequence[Signal],
    ids: dict[str, str] | None = None,
    *,
    title: str = "",
    language: Language = "en",
) -> None:
    """Print the newest revision of each signal. ``ids`` maps a case id to a short name, such as the news's own id."""
    newest = {s.signal_id: s for s in signals}
    known = ids or {}
    order = {case: n for n, case in enumerate(known)}
    rows = [
        (
            known.get(s.case_id, s.case_id[:8]),
            s.asset or "–",
            narrative.action_in_words(s).of(language),
            f"{s.preliminary_confidence:.2f} → {s.confidence:.2f}",
            joined(((term(s.stage) if s.stage != "final" else ""), narrative.verdict_in_words(s))).of(language),
            s.supporting_sources,
            s.independent_sources,
            " ".join(s.risk_flags),
            shortened(narrative.summary_in(s, language), 60),
        )
        for s in sorted(newest.values(), key=lambda s: order.get(s.case_id, 0))
    ]
    columns = ("news", "asset", "action", "confidence", "verdict", "support", "sources", "flags", "summary")
    right = headings(("support", "sources"), language)
    table(headings(columns, language), rows, title=title or Told("Signals", "信号").of(language), right=right)
    meant = Told(
        "support: sources that support the claim, once per owner; sources: independent ones, whatever they say.",
        "支持来源：支持该说法的来源，同一所有者只计一次；来源：独立来源，无论其内容。",
    )
    say_result(meant.of(language))


async def print_analytics(tables: ClickHouse) -> None:
    """Print latency and cost by step, and confidence by event type."""
    rows = [
        (s.step, s.results, s.p50_ms and round(s.p50_ms, 1), s.p95_ms and round(s.p95_ms, 1), s.calls, s.failed_calls,
         s.input_tokens + s.output_tokens, _money(s))
        for s in await read_steps(tables)
    ]  # fmt: skip
    columns = ("step", "results", "p50 ms", "p95 ms", "calls", "failed", "tokens", "cost USD")
    table(columns, rows, title="Latency and cost by step (v_latency_by_step, v_cost_by_step)", right=columns[1:])
    deltas = await tables.query(_BY_TYPE, {"run": LIVE_RUN})
    title = "Confidence by event type (v_confidence_delta_by_event_type)"
    table(deltas.columns, deltas.rows, title=title, right=deltas.columns[1:])


def print_audit(report: AuditReport) -> None:
    """Print the audit's counts, the forged and the overstated signals, and the verdict."""
    figures = msgspec.structs.asdict(report)
    forged, overstated = figures.pop("forged"), figures.pop("overstated")
    table(("audit", "count"), figures.items(), title="Audit of the whole log", right=("count",))
    _print_second_analyses(report)
    if report.unchecked_sources:
        say_result(
            f"The sources of {report.unchecked_sources} cases were not checked: the listener's key is not here. Run the audit on "
            "the listener's data directory, or set LISTENER_KEY."
        )
    if report.clean:
        return say_result("Clean: nothing lost, nothing twice, nothing forged, nothing overstated.")
    if report.lost or report.duplicate_events or report.duplicate_signals:
        say_result(
            as_started(
                "NOT CLEAN: lost, duplicate_events and duplicate_signals should be 0. `newsproof cases --status open` and "
                "`newsproof dlq list` show where."
            )
        )
    if report.unproven_sources:
        say_result(
            as_started(
                f"NOT CLEAN: {report.unproven_sources} cases count as news of a listed source, and the listener's mark on it is not "
                "valid by the key that is here. Either LISTENER_KEY was changed (write the old key behind the new one, with a "
                "comma), or somebody wrote to the journal: do not act on signals of these sources."
            )
        )
    if overstated:
        _print_faulty(overstated, f"Overstated signals ({len(overstated)} of {report.overstated_signals})")
        say_result(
            as_started(
                "NOT CLEAN: the pipeline published more than its search found out. Do not act on these signals, and report it "
                "as a defect with the output of `newsproof case` for one of them."
            )
        )
    if forged:
        _print_faulty(forged, f"Forged or altered signals ({len(forged)} of {report.forged_signals})")
        say_result(
            "NOT CLEAN: somebody other than publish wrote to the signals topic. Do not act on these records, tell whoever "
            "subscribes, take away every right to write there but the publisher's, and change the passwords that had it."
        )


def _print_second_analyses(report: AuditReport) -> None:
    again, of = report.second_analysis_calls, report.model_calls
    if of:
        say_result(f"Second looks and later reports of an event made {again} of {of} model calls ({again / of:.0%}).")


def _print_faulty(signals: Sequence[FaultySignal], title: str) -> None:
    rows = [(one.partition, one.offset, one.why) for one in signals]
    table(("partition", "offset", "why"), rows, title=title, right=("partition", "offset"))


def shortened(text: str, length: int) -> str:
    """Return the text on one line, cut to ``length`` characters."""
    line = " ".join(text.split())
    return line if len(line) <= length else line[: length - 1] + "…"


def _money(step: StepFigures) -> str:
    if step.calls == 0:
        return "–"
    known = "unknown" if step.cost_usd is None else f"{step.cost_usd:.4f}"
    return known if not step.unpriced_calls else f"{known} + {step.unpriced_calls} unpriced"
