"""The sheets of the standard report, which the terminal and the HTML page show alike."""

from __future__ import annotations

from newsproof.app.sheet import Columns, Sheet, Unit
from newsproof.report.data import VERDICTS, Report, horizon, milliseconds, usd

HORIZON = Unit(horizon, right=False)
MILLISECONDS, USD = Unit(milliseconds), Unit(usd)
_NAME = Unit(lambda name: name.replace("_", " ") or "–", right=False)
_OF_SCHEMA_1 = Unit(lambda name: name.replace("_", " ") or "of schema 1", right=False)
_END = Unit(lambda end: "too few days" if end is None else f"{end:.3f}")
_PERCENTILES: Columns = {f"p{n} ms": (f"p{n}_ms", MILLISECONDS) for n in (50, 95, 99)}
_RATES: Columns = {"confidence": ("mean_confidence", ".3f"), "hit rate": ("hit_rate", ".3f")}
_SCORES: Columns = {"Brier": ("brier", ".3f"), "ECE": ("ece", ".3f"), "noise floor": ("ece_noise", ".3f")}
_BY = Unit(lambda by: "all, retracted ones too" if by == "held" else by, right=False)


def _same(*names: str) -> Columns:
    return {name.replace("_", " "): name for name in names}


_CALIBRATION: Columns = {"horizon": ("horizon_s", HORIZON), "cases": "cases", **_RATES, **_SCORES}
_RELIABILITY: Columns = {
    "horizon": ("horizon_s", HORIZON),
    "from": "confidence_from",
    **_same("cases", "stories"),
    **_RATES,
}
_SHEETS: dict[str, tuple[str, Columns]] = {
    "spend": (
        "Cost by day and step",
        {"day (UTC)": "day", **_same("step", "calls", "executed"), "cost USD": ("cost_usd", USD), "of unknown price": "unpriced"},
    ),
    "latency": ("Latency by step", {**_same("step", "results", "failures"), **_PERCENTILES}),
    "to_signal": (
        "From the opened case to the signal",
        {
            "verdict": ("verdict", _OF_SCHEMA_1),
            "signals": "signals",
            **{f"p{n} ms": (f"opened_p{n}_ms", MILLISECONDS) for n in (50, 95, 99)},
        },
    ),
    "signals": (
        "Signals by day and verdict",
        {"day (UTC)": "day", "signals": "signals", **_same(*VERDICTS, "without_verdict")},
    ),
    "unchecked": ("Not verified, by reason", {"reason": ("unchecked_reason", _OF_SCHEMA_1), "signals": "signals"}),
    "precision": (
        "Precision of signals to buy or sell",
        {
            "horizon": ("horizon_s", HORIZON),
            "by": ("by", _BY),
            "group": ("group", _NAME),
            **_same("acted", "counted", "hits"),
            "precision": ("precision", ".3f"),
            "from": ("low", _END),
            "to": ("high", _END),
            "blocks of time": "blocks",
        },
    ),
    "deltas": (
        "Change of confidence by verification, in steps of 0.1",
        {"from": ("delta_from", "+.1f"), "signals": "signals"},
    ),
    "deltas_by_type": (
        "By type of event",
        {
            "type": "event_type",
            "signals": "signals",
            **{n: (f"mean_{of}", ".3f") for n, of in (("first", "preliminary"), ("final", "final"), ("change", "delta"))},
            **_same("raised", "lowered"),
        },
    ),
    "calibration": ("Calibration by horizon", _CALIBRATION),
    "reliability": ("Reliability by tenth of confidence", _RELIABILITY),
    "calibrated": ("Calibrated confidence by horizon", _CALIBRATION),
    "calibrated_bins": ("Reliability by tenth of calibrated confidence", _RELIABILITY),
    "coverage": (
        "Counted signals",
        {"horizon": ("horizon_s", HORIZON), **_same("standing", "signals", "on_synthetic_prices")},
    ),
    "trust": ("Data checks", _same("check", "violations")),
}  # fmt: skip


def sheet_of(report: Report, name: str) -> Sheet:
    """Return the sheet of one of the report's tables. All but ``cost_per_signal`` and ``modes`` have one."""
    title, columns = _SHEETS[name]
    return Sheet.of(report[name], columns, title=title)
