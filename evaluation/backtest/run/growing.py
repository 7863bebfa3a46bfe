"""What a plain comparison of a run that still grows has to say of itself."""

from __future__ import annotations

import msgspec

from evaluation.backtest.run.plan import Watch


def watch_in(changes: str) -> Watch | None:
    """Return what a run is watched by, from the column ``changes`` of ``runs``; None: it was begun without a metric."""
    try:
        return msgspec.json.decode(changes, type=_Changes).watch
    except msgspec.DecodeError:
        return None


def growing_warning(run_id: str, status: str, changes: str) -> str:
    """Return the warning of a comparison with a run that is not finished, "" when it is.

    ``status`` and ``changes`` are columns of ``runs``, "" for ``live``.
    """
    if status in ("", "finished"):
        return ""
    instead = f"newsproof backtest watch {run_id}" if watch_in(changes) else "wait for its end"
    return (
        f"run {run_id} is {status} and may grow: these figures hold for one look, at an end fixed beforehand. Who looks every "
        f"10 cases of 400 and stops at a difference calls equal runs different in 23 % of comparisons; {instead}"
    )


class _Changes(msgspec.Struct):
    watch: Watch | None = None
