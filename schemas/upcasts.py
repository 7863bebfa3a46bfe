"""Upcasters: the way up from every older version of an event, one step at a time, applied on read.

Adding a defaulted field needs none. Anything else raises the version in ``schemas.events.SCHEMA_VERSIONS`` and adds one
function here; a golden record of every version stays in the tests and must decode for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from schemas.errors import ContractError

Upcast = Callable[[dict[str, Any]], dict[str, Any]]


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


UPCASTS: dict[tuple[str, int], Upcast] = {
    ("newsproof.step_failed", 1): _step_failed_v1_to_v2,
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
