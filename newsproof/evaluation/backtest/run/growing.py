"""What a plain comparison of a run that still grows has to say of itself."""

from __future__ import annotations


def growing_warning(run_id: str, status: str, *, watched: bool) -> str:
    """Return the warning of a comparison with a run that is not finished, "" when it is.

    ``status`` is that of the table ``runs``, "" for ``live``; ``watched``: the run was begun with a metric to watch.
    """
    if status in ("", "finished"):
        return ""
    instead = f"newsproof backtest watch {run_id}" if watched else "wait for its end"
    return (
        f"run {run_id} is {status} and may grow: these figures hold for one look, at an end fixed beforehand. Who looks every "
        f"10 cases of 400 and stops at a difference calls equal runs different in 23 % of comparisons; {instead}"
    )
