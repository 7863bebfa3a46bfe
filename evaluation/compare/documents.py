"""A comparison as JSON, Markdown, or one HTML file that loads nothing. Untrusted text is escaped in each format."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

import msgspec

from evaluation.compare.comparison import Change, Comparison
from evaluation.compare.metrics import describe_p
from evaluation.compare.pairing import describe_alignment
from evaluation.compare.terminal import (
    calibration_sheet,
    counts_sheet,
    flip_row,
    flips_sheet,
    metric_notes,
    metrics_sheet,
    metrics_title,
    not_measured,
    paths_sheet,
    segment_lines,
    segments_sheet,
    spend_sheet,
)
from newsproof.app.sheet import Sheet, document


def as_json(comparison: Comparison) -> str:
    """Return one JSON object on one line: money as strings, unmeasured values null. docs/verdict.md describes the keys."""
    return msgspec.json.encode(comparison).decode() + "\n"


def as_markdown(comparison: Comparison) -> str:
    """Return a Markdown document for a pull request: verdict, tables, and the diffs in fences."""
    flips, spend = flips_sheet(comparison), spend_sheet(comparison)
    parts = [
        f"### Backtest: {_plain(comparison.name_a)} against {_plain(comparison.name_b)}",
        f"**{_plain(comparison.verdict)}.**",
        *_quoted(comparison.warnings),
        f"{describe_alignment(comparison.comparability)}.",
        *map(_rows, (counts_sheet(comparison), paths_sheet(comparison))),
        f"#### {_plain(metrics_title(comparison))}",
        metrics_sheet(comparison).markdown(_plain),
        *map(_plain, (*metric_notes(comparison), *not_measured(comparison))),
        _rows(segments_sheet(comparison)),
        *map(_plain, segment_lines(comparison)),
        _rows(calibration_sheet(comparison)),
        f"#### {flips.title}",
        _rows(flips) or "None.",
        f"#### Largest differences: {len(comparison.differences):,} of {comparison.changed_texts:,}",
        *(
            part
            for change in comparison.differences
            for part in (_plain("  ".join(flip_row(change))), _fence(change.diff))
        ),
        f"#### {spend.title}",
        spend.markdown(_plain),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _rows(sheet: Sheet) -> str:
    return sheet.markdown(_plain) if sheet.rows else ""


def _quoted(warnings: Sequence[str]) -> list[str]:
    return ["\n".join(f"> {_plain(warning)}  " for warning in warnings)] if warnings else []


_MARKUP = re.compile(r"[!#$&*<>@\[\\\]^`{|}~]|(?<!\w)_|_(?!\w)|:(?=\S)|\.(?=[^\W\d])|^[+-](?=\s)")


def _plain(text: str) -> str:
    # A character reference is always text: it cannot start a link, mention, image or tag, or end a table cell.
    return _MARKUP.sub(lambda mark: f"&#{ord(mark.group())};", text)


def _fence(lines: Sequence[str]) -> str:
    body = "\n".join(lines)
    ticks = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", body)), default=0))
    return f"{ticks}diff\n{body}\n{ticks}"


_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #fff; --line: #d4d9df; --soft: #59636e; --up: #116329; --down: #b3261e; --mark: #0b57d0 }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ed; --paper: #14171b; --line: #363c44; --soft: #a3adb8; --up: #5fd38a; --down: #ff8a80; --mark: #8ab4f8 } }
body { margin: 0 auto; max-width: 80rem; padding: 1.5rem; color: var(--ink); background: var(--paper); font: 15px/1.5 system-ui, sans-serif }
h1 { font-size: 1.4rem; margin: 0 0 .5rem } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem } p { max-width: 75ch }
.verdict { border-left: 4px solid var(--mark); padding: .5rem 1rem; font-weight: 600 } .soft { color: var(--soft) }
.table { overflow-x: auto } table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 14px }
th, td { text-align: left; padding: .3rem .7rem; border-bottom: 1px solid var(--line); vertical-align: top } th { color: var(--soft); font-weight: 600 }
td.n, th.n { text-align: right; white-space: nowrap } .better { color: var(--up); font-weight: 600 } .worse { color: var(--down); font-weight: 600 }
pre { overflow-x: auto; padding: .7rem; border: 1px solid var(--line); font-size: 13px } details { margin: .4rem 0 }
""".strip()


def as_html(comparison: Comparison) -> str:
    """Return the page: verdict, warnings, metrics, segments with their intervals, calibration, flips, differences, money."""
    metrics = metrics_sheet(comparison)
    marks = [m.verdict if m.verdict in ("better", "worse") else "" for m in metrics.items]
    parts = [
        f"<h1>{escape(comparison.name_b)} against {escape(comparison.name_a)}</h1>",
        f'<p class="verdict">{escape(_capital(comparison.verdict))}.</p>',
        *(
            f'<p class="soft">A, {escape(comparison.name_a)}: {escape(changes)}</p>'
            for changes in (comparison.changes_a,)
            if changes
        ),
        *(
            f'<p class="soft">B, {escape(comparison.name_b)}: {escape(changes)}</p>'
            for changes in (comparison.changes_b,)
            if changes
        ),
        *(f"<p>⚠ {escape(warning)}</p>" for warning in comparison.warnings),
        "<h2>What is compared</h2>",
        f"<p>{describe_alignment(comparison.comparability)}.</p>",
        counts_sheet(comparison).html(),
        _titled(paths_sheet(comparison)),
        f"<h2>{escape(metrics_title(comparison))}</h2>",
        metrics.html(marks=marks),
        *(f'<p class="soft">{escape(line)}</p>' for line in (*metric_notes(comparison), *not_measured(comparison))),
        *_segments(comparison),
        _titled(calibration_sheet(comparison)),
        f"<h2>{escape(flips_sheet(comparison).title)}</h2>",
        f"<h2>Largest differences: {len(comparison.differences):,} of {comparison.changed_texts:,}</h2>",
        *map(_difference, comparison.differences),
        _titled(spend_sheet(comparison)),
        f'<p class="soft">Random signs: {comparison.draws:,}, seed {comparison.seed}.</p>',
    ]
    return document(f"{comparison.name_b} against {comparison.name_a}", _STYLE, "\n".join(parts))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _titled(sheet: Sheet) -> str:
    return f"<h2>{escape(sheet.title)}</h2>{sheet.html()}" if sheet.rows else ""


def _segments(comparison: Comparison) -> list[str]:
    if not comparison.segments:
        return []
    lines = (
        f"<li>{escape(dimension.name)}: "
        f"{'differs beyond chance' if dimension.differs else escape(dimension.note) or 'does not differ beyond chance'}"
        f"{'' if dimension.p_holm is None else f' ({describe_p(dimension.p_holm)})'}</li>"
        for dimension in comparison.segments
    )
    figures = segments_sheet(comparison, every=True).html()
    return ["<h2>Profit by segment: B - A, with 95 % intervals</h2>", f"<ul>{''.join(lines)}</ul>", figures]


def _difference(change: Change) -> str:
    diff = f"<pre>{escape(chr(10).join(change.diff))}</pre>" if change.diff else ""
    return f"<details><summary>{escape('  '.join(flip_row(change)))}</summary>{diff}</details>"
