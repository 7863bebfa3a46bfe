"""The input of a comparison: rows of ``v_run_cases`` without their texts, and what the market did after the news."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from evaluation.backtest.run.run_case import RunCase

LIVE = "live"
"""Run id of the live judgements."""
NO_SIGNAL = "none"
"""The action of a case that ended without a signal."""
HORIZONS = {300: "5m", 3600: "1h", 14400: "4h", 86400: "24h"}
"""Horizons in seconds at which hits are measured, and their short names."""

HOW_NOT_WHAT = ("decided_at", "valid_until", "model", "prompt_versions")
"""Signal fields about how and when it was made. Two signals that differ only in these fields count as equal."""


class ComparedCase(RunCase, frozen=True):
    """What a comparison reads of a repeat, in the order of the query.

    ``verdict`` is the signal's, "" where it has none (no signal, or one of schema 1). ``knowable_ms``: Unix time from when on
    one could have acted on the news. ``signal_hash`` and ``notes_hash`` hash the texts and are 0 for an empty text; the
    signal's leaves out :data:`HOW_NOT_WHAT`.
    """

    verdict: str = ""
    look_ahead: int = 0
    signal_hash: int = 0
    notes_hash: int = 0
    language: str = ""
    source: str = ""
    horizon_s: int = 0
    knowable_ms: int = 0


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


Asked = tuple[str, str, int]
"""A case, an asset, and a number of seconds after the entry."""


Unadjusted = Literal["is_benchmark", "no_beta"]
"""Why what an asset did cannot be told from what the market did: it is BTC itself; too few bars of it or of BTC before the
entry to say how it moves with BTC, or none of BTC at the exit."""


class Returns(msgspec.Struct, frozen=True, kw_only=True):
    """What assets did after each case: exit price / entry price - 1, for anybody who bought at the case's entry.

    Both runs of a comparison enter a case at one time, so that neither gains by a price that the other could not have had.
    ``held``: until the horizon, or until the signal was withdrawn if that was sooner. ``moved``: over the whole horizon, and
    only where it says whether a direction was right: not of a withdrawn signal, a stablecoin or a halted market. Absent: no
    price. ``untraded``: cases and assets that nobody trades: withdrawn before anybody could have entered, or no ticker.
    ``adjusted``: as ``held``, less beta times what BTC did in the meantime. ``unadjusted``: cases and assets that are in ``held``
    and not there, and why.
    """

    held: Mapping[Asked, float] = {}
    moved: Mapping[Asked, float] = {}
    untraded: frozenset[tuple[str, str]] = frozenset()
    adjusted: Mapping[Asked, float] = {}
    unadjusted: Mapping[tuple[str, str], Unadjusted] = {}
    invented: bool = False
    """Whether some of the prices are synthetic."""


class CaseText(msgspec.Struct, frozen=True, kw_only=True):
    """The text of a case: the canonical JSON of its signal (empty when only columns are kept) and its notes."""

    signal: str
    notes: str
    fields: dict[str, str]


Texts = Mapping[tuple[str, str, int], CaseText]
"""By run, case and repeat."""
