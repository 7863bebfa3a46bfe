"""Reports of the demo: the signals, latency and cost, the audit; with ``--listen``, what the listener received."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from agents.text.wording import Language
from agents.verification.gate import NEVER_DEEP
from infra.clickhouse.client import ClickHouse
from infra.offline.newsroom.newsroom import OUTLETS, Shown
from infra.offline.sample_news import Label
from newsproof.app.sheet import Columns, Sheet, Unit, money, say_result, table
from newsproof.report.audit import print_audit
from newsproof.report.data import StepFigures, read_steps
from newsproof.report.signals import print_signals
from schemas.ids import LIVE_RUN
from schemas.news import News
from schemas.printable import shortened
from schemas.signals import ACTED_ON, Signal
from streams.audit.audit import AuditReport
from streams.listening.memory import SourceCursor

_BY_TYPE = """
SELECT event_type, signals, mean_preliminary, mean_final, mean_delta, raised, lowered
FROM v_confidence_delta_by_event_type WHERE run_id = {run:String} ORDER BY signals DESC, event_type LIMIT 20"""


class LabelFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The latest revision of each signal against the labels of the sample. ``mixed`` items are not counted.

    ``false_items``, ``true_items``: items labelled false and true, with or without a signal.
    ``false_actioned``: false items whose signal is final and to buy or sell; retracted and preliminary ones are not.
    ``false_searchable``: false items of a type that the gate lets through to a search: all but ``NEVER_DEEP`` (macro,
    other, airdrop, governance, celebrity, scam_alert). ``false_searched``: those with at least one successful search.
    ``true_confirmed``: true items whose verdict is confirmed or likely. A superseded signal keeps its verdict; the
    verdict of one retracted by a denial is refuted.
    """

    false_items: int
    false_actioned: int
    false_searchable: int
    false_searched: int
    true_items: int
    true_confirmed: int


class DemoSummary(LabelFigures, frozen=True, kw_only=True):
    """Summary for ``--json``. ``seconds`` runs from the first publish to the last table row."""

    published: int
    cases: int
    signals: int
    dropped: int
    degraded: int
    dead_letters: int
    lost: int
    duplicates: int
    seconds: float


def against_labels(labels: Mapping[str, Label], signals: Iterable[Signal], searched: Collection[str]) -> LabelFigures:
    """Compare signals with labels. ``labels``: by case id. ``signals``: all revisions. ``searched``: cases with a response."""
    newest: dict[str, Signal] = {}
    for signal in signals:
        if signal.case_id not in newest or newest[signal.case_id].revision < signal.revision:
            newest[signal.case_id] = signal
    false = [case for case, label in labels.items() if label.truth == "false"]
    true = [case for case, label in labels.items() if label.truth == "true"]
    searchable = [case for case in false if labels[case].event_type not in NEVER_DEEP]
    judged = [newest[case] for case in false if case in newest]
    return LabelFigures(
        false_items=len(false),
        false_actioned=sum(signal.stage == "final" and signal.action != "observe" for signal in judged),
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
    searched = f"{figures.false_searched} of {figures.false_searchable} that can be searched"
    rows = [
        ("labelled false", "says buy or sell", f"{figures.false_actioned} of {figures.false_items}"),
        ("labelled false", "was searched", searched),
        ("labelled true", "confirmed or likely", f"{figures.true_confirmed} of {figures.true_items}"),
    ]
    table(("items", "result", "count"), rows, title="Against the labels, which never enter the pipeline")


async def print_analytics(tables: ClickHouse) -> None:
    """Print latency and cost by step, and confidence by event type."""
    columns: Columns = {
        "step": "step",
        "results": "results",
        "p50 ms": ("p50_ms", ".1f"),
        "p95 ms": ("p95_ms", ".1f"),
        "calls": "calls",
        "failed": "failed_calls",
        "tokens": lambda step: step.input_tokens + step.output_tokens,
        "cost USD": (lambda step: step, Unit(_money)),
    }
    title = "Latency and cost by step (v_latency_by_step, v_cost_by_step)"
    Sheet.of(await read_steps(tables), columns, title=title).print()
    deltas = await tables.query(_BY_TYPE, {"run": LIVE_RUN})
    title = "Confidence by event type (v_confidence_delta_by_event_type)"
    table(deltas.columns, deltas.rows, title=title, right=deltas.columns[1:])


def _money(step: StepFigures) -> str:
    if step.calls == 0:
        return "–"
    known = money(step.cost_usd, 4)
    return known if not step.unpriced_calls else f"{known} + {step.unpriced_calls} unpriced"


Text = tuple[str, str]
"""A source, and the hash of one of its texts."""


class OpenedCase(msgspec.Struct):
    """An opened case. ``told_before``: the earlier case that reports the same story, if it ended as a copy."""

    source: str
    external_id: str
    text_hash: str
    told_before: str = ""
    reason: str = ""
    """Reason why it ended without a signal, else ""."""

    @property
    def text(self) -> Text:
        return self.source, self.text_hash


class ListenSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The last line of ``demo --listen --json``.

    ``kinds``, ``sources``: of sources that became news. ``items``: reported by the newsroom and published by the listener.
    ``stories``: cases that did not end as a copy of another or as part of its story. ``edits``: items published again with
    another text. ``lost``: reported items without a case. ``second_cases``: cases beyond one per reported item and text.
    ``seconds``: duration of the whole command.
    """

    kinds: int
    sources: int
    items: int
    stories: int
    cases: int
    edits: int
    lost: int
    second_cases: int
    seconds: float


def in_no_case(shown: Iterable[Shown], cases: Iterable[OpenedCase]) -> list[Shown]:
    """Return the items without a case for any of their texts. A case of an edit counts for its item, too."""
    texts = {case.text for case in cases}
    held = {(report.source, report.of) for report in shown if (report.source, report.text_hash) in texts}
    return [report for report in shown if not report.is_edit and (report.source, report.of) not in held]


def summary_of(
    shown: Sequence[Shown], published: Iterable[News], cases: Mapping[str, OpenedCase], seconds: float
) -> ListenSummary:
    """Count the results. ``published``: the records of ``news``. ``cases``: by case id."""
    texts = {(item.source, item.identity, item.text_hash) for item in published}
    items, sources = {item[:2] for item in texts}, {item[0] for item in texts}
    known = {(report.source, report.text_hash): (report.source, report.of) for report in shown}
    opened = Counter(case.text for case in cases.values())
    return ListenSummary(
        kinds=len({OUTLETS[name][0] for name in sources}),
        sources=len(sources),
        items=len({known[source, text] for source, _, text in texts if (source, text) in known}),
        stories=sum(not case.told_before for case in cases.values()),
        cases=len(cases),
        edits=len(texts) - len(items),
        lost=len(in_no_case(shown, cases.values())),
        second_cases=sum(count - (text in known) for text, count in opened.items()),
        seconds=round(seconds, 2),
    )


def print_what_came(
    summary: ListenSummary,
    published: Iterable[News],
    cursors: Mapping[str, SourceCursor],
    cases: Mapping[str, OpenedCase],
    signals: Iterable[Signal],
) -> None:
    """Print the items received by source, and the results of their cases."""
    texts = {(item.source, item.identity, item.text_hash) for item in published}
    reports, items = (Counter(item[0] for item in versions) for versions in (texts, {item[:2] for item in texts}))
    rows = []
    for name, (kind, _) in OUTLETS.items():
        cursor = cursors.get(name, SourceCursor(source=name))
        how = shortened(f"{cursor.state}: {cursor.why}" if cursor.why else cursor.state, 56)
        rows.append((name, kind, items[name], reports[name] - items[name], cursor.counts.get("repeat", 0), how))
    columns = ("source", "kind", "items", "edits", "shown again", "state")
    table(columns, rows, title="Items received", right=columns[2:5])
    say_result("shown again: known items in a changed response, counted at each poll. They opened no case.")
    newest = {signal.signal_id: signal for signal in sorted(signals, key=lambda signal: signal.revision)}
    verdicts = Counter("retracted" if signal.stage == "retracted" else signal.verdict for signal in newest.values())
    ended = Counter(case.reason for case in cases.values() if case.reason)
    rows_of = [(f"a signal: {verdict}", count) for verdict, count in verdicts.most_common()]
    rows_of += [(f"no signal: {_ENDS.get(reason, reason)}", count) for reason, count in ended.most_common()]
    table(("result", "cases"), rows_of, title="Results", right=("cases",))
    say_result(
        f"{summary.items} items from {summary.sources} sources of {summary.kinds} kinds, and {summary.edits} edits, opened "
        f"{summary.cases} cases in {summary.stories} stories. Lost: {summary.lost}; second cases: {summary.second_cases}."
    )


_ENDS = {
    "duplicate": "identical to an earlier report",
    "same_story": "later report of a story",
    "spam": "advertising or a scam",
    "empty": "nothing to judge",
}
