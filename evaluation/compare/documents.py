"""A comparison as JSON or Markdown. Untrusted text is escaped in each format."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from evaluation.compare.comparison import Comparison
from evaluation.compare.pairing import aligned_in_words
from evaluation.compare.terminal import (
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
    metrics_title,
    not_measured,
    segment_lines,
    segment_rows,
    spend_rows,
    transition_rows,
)
from newsproof.app.invocation import markdown_table


def as_json(found: Comparison) -> str:
    """Return one JSON object on one line: money as strings, unmeasured values null. docs/verdict.md describes the keys."""
    return msgspec.json.encode(found).decode() + "\n"


def as_markdown(found: Comparison) -> str:
    """Return a Markdown document for a pull request: verdict, tables, and the diffs in fences."""
    counts = found.comparability
    parts = [
        f"### Backtest: {_plain(found.name_a)} against {_plain(found.name_b)}",
        f"**{_plain(found.verdict)}.**",
        *_quoted(found.warnings),
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


def _quoted(warnings: Sequence[str]) -> list[str]:
    return ["\n".join(f"> {_plain(warning)}  " for warning in warnings)] if warnings else []


_MARKUP = re.compile(r"[!#$&*<>@\[\\\]^`{|}~]|(?<!\w)_|_(?!\w)|:(?=\S)|\.(?=[^\W\d])|^[+-](?=\s)")


def _plain(text: str) -> str:
    # A character reference is always text: it cannot start a link, mention, image or tag, or end a table cell.
    return _MARKUP.sub(lambda found: f"&#{ord(found.group())};", text)


def _fence(lines: Sequence[str]) -> str:
    body = "\n".join(lines)
    ticks = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", body)), default=0))
    return f"{ticks}diff\n{body}\n{ticks}"
