"""Runs for tests of comparing: rows with everything usual, but for what a test says."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np

from evaluation.compare.run_rows import CaseText, ComparedCase, Returns, RunRows

USUAL: dict[str, Any] = {
    "repeat": 0,
    "status": "replayed",
    "event_type": "listing",
    "asset": "BTC",
    "action": "buy",
    "direction": "long",
    "verdict": "confirmed",
    "preliminary_confidence": 0.5,
    "confidence": 0.6,
    "has_signal": 1,
    "executed": 0,
    "reused": 4,
    "missed": 0,
    "cost_usd": Decimal(0),
    "unpriced_calls": 0,
    "avoided_cost_usd": Decimal("0.002"),
    "would_have_cost_usd": Decimal("0.002"),
    "latency_ms": None,
    "delay_ms": 800.0,
    "look_ahead": 0,
    "after_training_cutoff": 0,
    "signal_hash": 1,
    "notes_hash": 1,
    "language": "en",
    "source": "wire",
    "horizon_s": 3600,
}
DAY_MS = 86_400_000


def case(name: str, story: str = "", **changes: Any) -> ComparedCase:
    """Return one row; a case is its own story where none is named, and of another day than cases with another name."""
    day = int.from_bytes(name.encode()[-3:], "big") % 5_000
    usual = USUAL | {"case_id": name, "story_id": story or name, "knowable_ms": day * DAY_MS}
    return ComparedCase(**usual | changes)


def called(cost: str, latency_ms: float, calls: int = 1) -> dict[str, Any]:
    """Return what a case has whose calls were executed."""
    spent = Decimal(cost)
    return {
        "executed": calls,
        "reused": 0,
        "cost_usd": spent,
        "latency_ms": latency_ms,
        "delay_ms": latency_ms,
        "avoided_cost_usd": None,
        "would_have_cost_usd": spent,
    }


def run(run_id: str, rows: list[ComparedCase], cases: int | None = None, **changes: Any) -> RunRows:
    """Return a finished run of these rows."""
    count = len({row.case_id for row in rows}) if cases is None else cases
    return RunRows(**{"run_id": run_id, "cases": count, "rows": rows, "status": "finished"} | changes)


def after(came: Mapping[int, Mapping[str, float]], asset: str = "BTC") -> Returns:
    """Return what the market did, by horizon and case."""
    moves = {(name, asset, horizon): move for horizon, of_case in came.items() for name, move in of_case.items()}
    held = Returns(held=moves, moved=moves)
    return msgspec.structs.replace(held, own=(held, held))


CHANGES = '{"prompts":{"synthesize":{"version":"4","hash":"05eabc8d5bff6188","text":"You write…"}},"repeat":1}'


def example() -> tuple[RunRows, RunRows, Returns, dict[tuple[str, str, int], CaseText]]:
    """Return the two runs of docs/verdict.md, what came of their cases, and their texts: 120 made-up stories in 240 cases on
    60 days, synthesize changed.

    The candidate is less sure of rumours (every fifth story), which rise in four of ten cases; others rise in seven. Half of the
    cases have a truth: rumours are false, other news is true.
    """
    rng = np.random.default_rng(42)
    came: dict[int, dict[str, float]] = {3600: {}, 14400: {}, 86_400: {}}
    rows: dict[str, list[ComparedCase]] = {"synth-v3": [], "synth-v4": []}
    texts: dict[tuple[str, str, int], CaseText] = {}
    for n in range(240):
        story, name = n // 2, f"case-{n:03}"
        rumour = story % 5 == 0
        luck = np.random.default_rng(story).random(3)
        for horizon, drawn in zip(came, luck, strict=True):
            came[horizon][name] = 0.01 if drawn < (0.4 if rumour else 0.7) else -0.01
        before = round(float(np.clip(rng.normal(0.72, 0.06), 0.3, 0.95)), 3)
        for run_id, confidence in (("synth-v3", before), ("synth-v4", round(before - 0.22 * rumour, 3))):
            acts = confidence >= 0.5
            said = {"action": "buy" if acts else "observe", "confidence": confidence, "direction": "long"}
            said["verdict"] = "confirmed" if not rumour else "likely" if acts else "unconfirmed"
            cost = called("0.000412" if run_id == "synth-v3" else "0.000455", round(float(rng.normal(900, 90)), 1))
            reused = {"reused": 5, "avoided_cost_usd": Decimal("0.0021"), "delay_ms": cost["latency_ms"] + 2_400.0}
            reused["would_have_cost_usd"] = cost["cost_usd"] + Decimal("0.0021")
            changed = {"notes_hash": 2} if rumour and run_id == "synth-v4" else {}
            kind = {"event_type": "rumour" if rumour else "listing", "knowable_ms": (20_000 + n // 4) * DAY_MS}
            rows[run_id].append(case(name, f"story-{story:03}", **said | cost | reused | changed | kind))
            first = "One unnamed source." if rumour else "Confirmed by the exchange."
            notes = f"{first} {'Held back until an official word.' if confidence < 0.6 and rumour else 'Price reacts.'}"
            fields = {name: str(value) for name, value in said.items()}
            texts[run_id, name, 0] = CaseText(signal="", notes=notes, fields=fields)
    a, b = (run(name, found) for name, found in rows.items())
    truths = {f"case-{n:03}": float(n // 2 % 5 != 0) for n in range(0, 240, 2)}
    returns = msgspec.structs.replace(after(came), truths=truths)
    return a, msgspec.structs.replace(b, changes=CHANGES), returns, texts
