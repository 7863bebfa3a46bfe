"""A comparison as JSON, CSV, Markdown or JUnit XML. Untrusted text is escaped in each format."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from xml.etree import ElementTree as Xml

import msgspec

from newsproof.app.invocation import markdown_table
from newsproof.evaluation.compare.comparison import Comparison
from newsproof.evaluation.compare.metrics import MetricResult
from newsproof.evaluation.compare.pairing import aligned_in_words
from newsproof.evaluation.compare.rules import RuleResult
from newsproof.evaluation.compare.terminal import (
    CALIBRATION_COLUMNS,
    FLIP_COLUMNS,
    METRIC_COLUMNS,
    SEGMENT_COLUMNS,
    SPEND_COLUMNS,
    TRANSITION_COLUMNS,
    calibration_rows,
    count_rows,
    flip_row,
    flip_rows,
    flip_title,
    measured_rows,
    metric_notes,
    metric_row,
    metrics_title,
    not_measured,
    segment_lines,
    segment_rows,
    spend_rows,
    transition_rows,
)

CSV_COLUMNS = (
    "metric",
    "horizon",
    "role",
    "unit",
    "cases",
    "blocks",
    "a",
    "b",
    "delta",
    "delta_low",
    "delta_high",
    "low",
    "high",
    "p",
    "p_holm",
    "detectable",
    "verdict",
)


def as_json(found: Comparison) -> str:
    """Return one JSON object on one line: money as strings, unmeasured values null. docs/verdict.md describes the keys."""
    return msgspec.json.encode(found).decode() + "\n"


def as_csv(found: Comparison) -> str:
    """Return a header and one line per metric; unmeasured values are empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow((*CSV_COLUMNS, "note"))
    for m in found.metrics:
        writer.writerow([*(getattr(m, name) for name in CSV_COLUMNS), m.note])
    return out.getvalue()


def as_markdown(found: Comparison) -> str:
    """Return a Markdown document for a pull request: verdict, tables, and the diffs in fences."""
    counts = found.comparability
    parts = [
        f"### Backtest: {_plain(found.name_a)} against {_plain(found.name_b)}",
        f"**{_plain(found.verdict)}.**",
        *_quoted(found.warnings),
        *(_rule_line(rule) for rule in found.rules),
        f"{aligned_in_words(counts)}.",
        markdown_table(("", "A", "B"), count_rows(counts.a, counts.b), escape=_plain),
        *_table_of(TRANSITION_COLUMNS, transition_rows(found)),
        f"#### {_plain(metrics_title(found))}",
        markdown_table(METRIC_COLUMNS, measured_rows(found), escape=_plain),
        *map(_plain, (*metric_notes(found), *not_measured(found))),
        *_table_of(SEGMENT_COLUMNS, segment_rows(found)),
        *map(_plain, segment_lines(found)),
        *_table_of(CALIBRATION_COLUMNS, calibration_rows(found)),
        f"#### {flip_title(found)}",
        markdown_table(FLIP_COLUMNS, rows, escape=_plain) if (rows := flip_rows(found)) else "None.",
        f"#### Largest differences: {len(found.differences):,} of {found.changed_texts:,}",
        *(part for change in found.differences for part in (_plain("  ".join(flip_row(change))), _fence(change.diff))),
        "#### Spend over the cases in both, all repeats",
        markdown_table(SPEND_COLUMNS, spend_rows(found), escape=_plain),
    ]
    return "\n\n".join(parts) + "\n"


def _table_of(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [markdown_table(columns, rows, escape=_plain)] if rows else []


def as_junit(found: Comparison) -> str:
    """Return JUnit XML: a test case for each metric (skipped if not measured) and for each rule of ``--fail-on``.

    A metric never fails by itself; rules do: a failure when the rule holds, an error when it cannot be judged.
    """
    suites = Xml.Element("testsuites", name="newsproof backtest compare")
    metrics = Xml.SubElement(suites, "testsuite", name=f"metrics of {found.a} and {found.b}")
    rules = Xml.SubElement(suites, "testsuite", name="fail-on")
    for m in found.metrics:
        _metric_case(metrics, m)
    for rule in found.rules:
        _rule_case(rules, rule)
    Xml.SubElement(metrics, "system-out").text = "\n".join((found.verdict, *found.warnings, *_diffs(found)))
    for suite in (metrics, rules):
        for state, tag in (("tests", "testcase"), ("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            suite.set(state, str(sum(1 for _ in suite.iter(tag))))
    Xml.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + Xml.tostring(suites, encoding="unicode") + "\n"


def _metric_case(suite: Xml.Element, m: MetricResult) -> None:
    case = Xml.SubElement(suite, "testcase", classname="newsproof.compare.metrics", name=m.label)
    if m.verdict == "not measured":
        Xml.SubElement(case, "skipped", message=m.note)
    else:
        row = zip(METRIC_COLUMNS[1:], metric_row(m, {m.note: 1})[1:], strict=True)
        told = "; ".join(f"{name}: {value}" for name, value in row)
        Xml.SubElement(case, "system-out").text = f"{told}; [1] {m.note}" if m.note else told


def _rule_case(suite: Xml.Element, rule: RuleResult) -> None:
    case = Xml.SubElement(suite, "testcase", classname="newsproof.compare.fail-on", name=rule.rule)
    if rule.holds is None:
        Xml.SubElement(case, "error", message=f"cannot be judged: {rule.why}", type="not-measured")
    elif rule.holds:
        Xml.SubElement(case, "failure", message=rule.why, type="fail-on")
    else:
        Xml.SubElement(case, "system-out").text = rule.why


def _diffs(found: Comparison) -> Iterable[str]:
    for change in found.differences:
        yield "  ".join(flip_row(change))
        yield from (f"    {line}" for line in change.diff)


def _quoted(warnings: Sequence[str]) -> list[str]:
    return ["\n".join(f"> {_plain(warning)}  " for warning in warnings)] if warnings else []


def _rule_line(rule: RuleResult) -> str:
    state = {True: "❌ holds", False: "✅ does not hold", None: "⚠️ cannot be judged"}[rule.holds]
    return f"`--fail-on` {_plain(rule.rule)}: {state} ({_plain(rule.why)})"


_MARKUP = re.compile(r"[!#$&*<>@\[\\\]^`{|}~]|(?<!\w)_|_(?!\w)|:(?=\S)|\.(?=[^\W\d])|^[+-](?=\s)")


def _plain(text: str) -> str:
    # A character reference is always text: it cannot start a link, mention, image or tag, or end a table cell.
    return _MARKUP.sub(lambda found: f"&#{ord(found.group())};", text)


def _fence(lines: Sequence[str]) -> str:
    body = "\n".join(lines)
    ticks = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", body)), default=0))
    return f"{ticks}diff\n{body}\n{ticks}"
