"""The input of a comparison: rows of ``v_run_cases`` without their texts, and returns after the news."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from newsproof.evaluation.backtest.run.run_case import RunCase

LIVE = "live"
"""Run id of the live judgements."""
NO_SIGNAL = "none"
"""The action of a case that ended without a signal."""
HORIZONS = {300: "5m", 3600: "1h", 14400: "4h", 86400: "24h"}
"""Horizons in seconds at which outcomes are measured, and their short names."""


HOW_NOT_WHAT = ("decided_at", "valid_until", "model", "prompt_versions")
"""Signal fields about how and when it was made. Two signals that differ only in these fields count as equal."""


class ComparedCase(RunCase, frozen=True):
    """What a comparison reads of a repeat, in the order of the query.

    ``verdict`` is the signal's, "" where it has none (no signal, or one of schema 1). ``signal_hash`` and ``notes_hash`` hash the texts and are 0 for an empty text; the signal's leaves out
    :data:`HOW_NOT_WHAT`.
    """

    verdict: str = ""
    look_ahead: int = 0
    signal_hash: int = 0
    notes_hash: int = 0


Hits = Mapping[int, Mapping[tuple[str, int], int]]
"""By horizon in seconds, then by (case, repeat): 1 if the price moved as the signal said, else 0. Absent: not counted.
"""


class RunRows(msgspec.Struct, frozen=True, kw_only=True):
    """One run. ``cases`` counts all its cases; ``rows`` holds all repeats of the cases that the other run has too.

    ``hits`` come from the view ``v_judged_outcomes``, which decides what counts. ``status`` and ``changes`` (JSON) come
    from the table ``runs`` and are empty for ``live``.
    """

    run_id: str
    cases: int
    rows: list[ComparedCase]
    hits: Hits = {}
    status: str = ""
    changes: str = ""


class CaseText(msgspec.Struct, frozen=True, kw_only=True):
    """The text of a case: the canonical JSON of its signal (empty when only columns are kept) and its notes."""

    signal: str
    notes: str
    fields: dict[str, str]


Texts = Mapping[tuple[str, str, int], CaseText]
"""By run, case and repeat."""
