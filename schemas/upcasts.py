"""Upcasters: the way up from every older version of an event, one step at a time, applied on read.

Adding a defaulted field needs none. Anything else raises the version in ``schemas.events.SCHEMA_VERSIONS`` and adds one
function here; a golden record of every version stays in the tests and must decode for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from schemas.errors import ContractError

Upcast = Callable[[dict[str, Any]], dict[str, Any]]
UPCAST_FAILURES = (ValueError, LookupError, TypeError, AttributeError, RecursionError)
"""What decoding an old value may raise: an upcaster meets any JSON."""


def _step_failed_v1_to_v2(old: dict[str, Any]) -> dict[str, Any]:
    """Version 1 kept the failure as two strings; version 2 as a value that says itself whether to retry."""
    new = {k: v for k, v in old.items() if k not in ("error", "error_class")}
    retry_at = old.get("retry_at")
    new["failure"] = {
        "type": "failure",
        "kind": old.get("error_class", "internal"),
        "message": old.get("error", ""),
        "retryable": retry_at is not None,
    }
    new["outcome"] = "retry" if retry_at is not None else "degrade"
    return new


_NEW_IN_SIGNAL_V2 = ("stage", "verdict", "unchecked_reason", "supporting_sources", "summary_zh", "summary_en")
_STAGE_OF_STATUS = {
    "preliminary": "preliminary",
    "preliminary_only": "final",
    "verified": "final",
    "degraded": "final",
    "superseded": "superseded",
    "retracted": "retracted",
}
_VERDICT_OF_RULE = {
    "denied_or_conflict": "disputed",
    "stale": "stale",
    "few_sources": "unconfirmed",
    "no_evidence": "unconfirmed",
}


def _signal_v1_to_v2(old: dict[str, Any]) -> dict[str, Any]:
    """Version 1 had one word, ``status``, for how far a signal got and for what was found: version 2 has two.

    The first adjustment of version 1 was its base rule. Its rules knew neither ``confirmed`` nor ``likely``, so no old
    signal gets such a verdict; and they did not say why nothing was searched, so ``unchecked_reason`` stays None where
    the gate, the budget and a failed search ended as one status.
    """
    if clash := old.keys() & set(_NEW_IN_SIGNAL_V2):
        raise ValueError(f"a signal of schema 1 holds {', '.join(sorted(clash))}, which came with schema 2")
    new = {**dict.fromkeys(_NEW_IN_SIGNAL_V2), **_staged(old), "schema_version": 2}
    if new["stage"] == "preliminary":
        new["unchecked_reason"] = "preliminary"
    return new


def _staged(old: dict[str, Any]) -> dict[str, Any]:
    """Return a signal, or what the research chat found of one, with ``stage`` and ``verdict`` for its ``status``."""
    new = dict(old)
    status, adjustments = new.pop("status"), old.get("adjustments")
    new["stage"] = _STAGE_OF_STATUS[status]
    if status in ("preliminary", "preliminary_only"):
        new["verdict"] = "unchecked"
    elif "refuted" in old.get("risk_flags", ()):
        new["verdict"] = "refuted"
    else:
        new["verdict"] = _VERDICT_OF_RULE.get(adjustments[0]["rule"]) if adjustments else None
    return new


def _data_collected_v1_to_v2(old: dict[str, Any]) -> dict[str, Any]:
    """Version 1 kept the status of the signals that were found."""
    return old | {"signals": [_staged(one) for one in old.get("signals", ())]}


def _signal_within(field: str) -> Upcast:
    """Return the way up of an event that holds a signal in this field, or null, or nothing."""
    return lambda old: old if old.get(field) is None else old | {field: _signal_v1_to_v2(old[field])}


def _as_it_is(old: dict[str, Any]) -> dict[str, Any]:
    """A version that only adds a value that older code would take for broken."""
    return old


SIGNAL = "newsproof.signal"
"""What a record of the ``signals`` topic is called, which is no event of the journal."""
UPCASTS: dict[tuple[str, int], Upcast] = {
    ("newsproof.step_failed", 1): _step_failed_v1_to_v2,
    (SIGNAL, 1): _signal_v1_to_v2,
    ("newsproof.case_triaged", 1): _signal_within("preliminary_signal"),
    ("newsproof.case_triaged", 2): _as_it_is,
    ("newsproof.case_dropped", 1): _as_it_is,
    ("newsproof.signal_synthesized", 1): _signal_within("signal"),
    ("newsproof.data_collected", 1): _data_collected_v1_to_v2,
}


def upcast(wire: str, version: int, to: int, data: dict[str, Any]) -> dict[str, Any]:
    """Return ``data`` lifted from ``version`` to ``to``, one step at a time.

    Raises:
        ContractError: when a step of the chain is missing (reason ``no_upcast``).
    """
    for v in range(version, to):
        step = UPCASTS.get((wire, v))
        if step is None:
            raise ContractError(f"{wire} v{v} has no way up to v{v + 1}", reason="no_upcast")
        data = step(data)
    return data
