"""Rows of a run: what is stored of each case, read without its texts, and what a run changed.

Also makes untrusted text safe to display, and diffs the texts of two cases.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Literal

import msgspec

from evaluation.declaration import Declaration, parse_declaration


class RunCase(msgspec.Struct, frozen=True):
    """One repeat of one case in one run; the fields are columns of ``run_cases`` and of ``v_run_cases``.

    Costs in USD, None when no price is known; ``latency_ms`` None when no call was executed.
    """

    case_id: str
    repeat: int
    story_id: str
    status: str
    has_signal: int = 0
    event_type: str = ""
    asset: str = ""
    action: str = ""
    direction: str = ""
    preliminary_confidence: float = 0.0
    confidence: float = 0.0
    executed: int = 0
    reused: int = 0
    missed: int = 0
    cost_usd: Decimal | None = Decimal(0)
    unpriced_calls: int = 0
    avoided_cost_usd: Decimal | None = Decimal(0)
    would_have_cost_usd: Decimal | None = Decimal(0)
    latency_ms: float | None = None
    after_training_cutoff: int = 0


NO_SIGNAL = "none"
"""The action of a case that ended without a signal."""
HORIZONS = {300: "5m", 3600: "1h", 14400: "4h", 86400: "24h"}
"""Horizons in seconds at which hits are measured, and their short names."""
PROFIT_HORIZONS = HORIZONS | {604_800: "7d", 2_592_000: "30d"}
"""Horizons at which profits are measured, up to the longest that a signal may have."""

HOW_NOT_WHAT = ("decided_at", "valid_until", "model", "prompt_versions")
"""Signal fields about how and when it was made. Two signals that differ only in these fields count as equal."""


class ComparedCase(RunCase, frozen=True):
    """One repeat of a case as a comparison reads it, in the order of the query.

    ``verdict`` is the signal's, "" where it has none (no signal, or one of schema 1). ``knowable_ms``: Unix time from when on
    one could have acted on the news. ``signal_hash`` and ``notes_hash`` hash the texts and are 0 for an empty text; the
    signal's leaves out :data:`HOW_NOT_WHAT`. ``delay_ms``: what the case takes without a recording, its executed calls and the
    recorded latency of those reused; None: not known. It is the last field, and no column.
    """

    verdict: str = ""
    look_ahead: int = 0
    signal_hash: int = 0
    notes_hash: int = 0
    language: str = ""
    source: str = ""
    horizon_s: int = 0
    knowable_ms: int = 0
    delay_ms: float | None = None


class RunRows(msgspec.Struct, frozen=True, kw_only=True):
    """One run. ``cases`` counts all its cases; ``rows`` holds all repeats of the cases that the other run has too.

    ``status`` and ``changes`` (JSON) come from the table ``runs`` and are empty for ``live``. ``name``: what a person calls the run.
    """

    run_id: str
    cases: int
    rows: list[ComparedCase]
    status: str = ""
    changes: str = ""
    name: str = ""


ReturnKey = tuple[str, str, int]
"""A case, an asset, and a number of seconds after the entry."""


Unadjusted = Literal["is_benchmark", "no_beta"]
"""Why a return cannot be adjusted for the market: the asset is BTC itself; or there are too few bars of it or of BTC before the
entry for a beta, or none of BTC at the exit."""


class Returns(msgspec.Struct, frozen=True, kw_only=True):
    """Returns of assets after each case: exit price / entry price - 1, for anybody who bought at the case's entry.

    Both runs of a comparison enter a case at one time, so that a difference is due to their judgements. ``own`` holds the returns
    of A and of B where each enters after its own delay; empty: not read.
    ``held``: until the horizon, or until the signal was withdrawn if that was sooner. ``moved``: over the whole horizon, and
    only where it says whether a direction was right: not of a withdrawn signal, a stablecoin or a halted market. Absent: no
    price. ``untraded``: cases and assets that nobody trades: withdrawn before anybody could have entered, or no ticker.
    ``adjusted``: as ``held``, less beta times what BTC did in the meantime. ``unadjusted``: cases and assets that are in ``held``
    and not there, and why.
    """

    held: Mapping[ReturnKey, float] = {}
    moved: Mapping[ReturnKey, float] = {}
    untraded: frozenset[tuple[str, str]] = frozenset()
    adjusted: Mapping[ReturnKey, float] = {}
    unadjusted: Mapping[tuple[str, str], Unadjusted] = {}
    own: tuple[Returns, ...] = ()
    invented: bool = False
    """Whether some of the prices are synthetic."""
    truths: Mapping[str, float] = {}
    """By case: 1.0 where its claim turned out true, 0.0 where it turned out false. Absent: not known."""


class CaseText(msgspec.Struct, frozen=True, kw_only=True):
    """The text of a case: the canonical JSON of its signal (empty when only columns are kept) and its notes."""

    signal: str
    notes: str
    fields: dict[str, str]


Texts = Mapping[tuple[str, str, int], CaseText]
"""By run, case and repeat."""


MAX_LINES = 60
MAX_LINE = 300
"""Limits of a diff in lines and characters, since a signal may carry forty pages of evidence."""

_UNSHOWN = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\uffff\ud800-\udfff]"
)
"""Control characters, terminal escapes, bidirectional controls, and characters that XML does not allow."""
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|(?<=[。！？；])\s*|\n")


def visible(text: str) -> str:
    """Return the text on one line, with every invisible character written as ``\\u…``."""
    return _UNSHOWN.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def changes_summary(changes: str) -> str:
    """Return a summary of what a run changed, from the JSON in the table ``runs``, without the prompts' texts."""
    try:
        declaration = msgspec.json.decode(changes, type=Declaration)
    except msgspec.DecodeError:
        return visible(changes)[:MAX_LINE]
    prompts = [f"{name} v{p.version} ({p.hash[:8]})" for name, p in sorted(declaration.prompts.items())]
    models = [f"{task} by {model}" for task, model in sorted(declaration.models.items())]
    return visible(", ".join((*prompts, *models))) or "nothing changed"


def looks_up_misses(changes: str) -> bool:
    """Return whether a backtest looked up what was never recorded, from the JSON in the table ``runs``. A shadow looks up at the time."""
    declaration = parse_declaration(changes)
    return declaration.on_miss == "live" and declaration.watch is None


def difference(a: CaseText | None, b: CaseText | None) -> tuple[str, ...]:
    """Return a unified diff of two cases' texts, safe to display; each field and each sentence of the notes is a line."""
    whole = bool(a and a.signal and b and b.signal)
    before, after = _lines(a, whole=whole), _lines(b, whole=whole)
    # Without the two file headers and the hunk positions.
    lines = [line for line in list(difflib.unified_diff(before, after, n=1, lineterm=""))[2:] if line[:2] != "@@"]
    shown = [line if len(line) <= MAX_LINE else line[: MAX_LINE - 1] + "…" for line in lines[:MAX_LINES]]
    if len(lines) > MAX_LINES:
        shown.append(f" … and {len(lines) - MAX_LINES} lines more")
    return tuple(shown)


def _lines(text: CaseText | None, *, whole: bool) -> list[str]:
    if text is None:
        return ["(no signal)"]
    fields: object = text.fields
    if whole:
        try:
            fields = msgspec.json.decode(text.signal)
        except msgspec.DecodeError:
            fields = {"signal": text.signal}
    if isinstance(fields, dict):
        fields = {name: value for name, value in fields.items() if name not in ("notes", *HOW_NOT_WHAT)}
    lines = msgspec.json.format(msgspec.json.encode(fields), indent=1).decode().splitlines()
    sentences = [part.strip() for part in _SENTENCE.split(text.notes) if part.strip()]
    return [visible(line) for line in lines if line.strip(" {}[],")] + [visible(f"notes: {part}") for part in sentences]
