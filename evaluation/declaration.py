"""What a run changed and declared before its first case: the column ``changes`` of the table ``runs``."""

from __future__ import annotations

import shlex
from typing import Literal

import msgspec

StopWhen = Literal["", "better", "worse", "either"]


class Watch(msgspec.Struct, frozen=True, kw_only=True):
    """The metric that a growing run is watched by, and the side of live on which the run ends by itself ("": never)."""

    metric: str
    stop_when: StopWhen = ""


class _ChangedPrompt(msgspec.Struct):
    version: str = ""
    hash: str = ""


def option_of_log(log: str) -> str:
    """Return the option of ``backtest run`` that names a log (:class:`evaluation.runs.plan.RunPlan`), and a space."""
    return {"": "", "journal": "", "sample": "--sample-log "}.get(log, f"--file {shlex.quote(log)} ")


class Declaration(msgspec.Struct):
    """What a run changed and declared before its first case: the column ``changes`` of ``runs``. ``primary``: its metric of
    ``backtest compare``, "" for the default. ``watch`` None: it is not watched. ``log``: "" for the journal (:class:`evaluation.runs.plan.RunPlan`).
    """

    prompts: dict[str, _ChangedPrompt] = {}
    models: dict[str, str] = {}
    primary: str = ""
    watch: Watch | None = None
    on_miss: str = ""
    log: str = ""


def parse_declaration(changes: str) -> Declaration:
    """Return what a run declared, from the JSON in the table ``runs``; nothing for ``live`` and for what is no such JSON."""
    try:
        return msgspec.json.decode(changes, type=Declaration)
    except msgspec.DecodeError:
        return Declaration()
