"""The plan of a run: its cases, its change and its repeats. It is the first event on the run's topic."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, Literal

import msgspec

from evaluation.declaration import Watch, option_of_log
from schemas.config import Prompt
from schemas.errors import ConfigError
from schemas.ids import LIVE_RUN, RESEARCH_RUN
from streams.replay import Change

OnMiss = Literal["fail", "skip", "live"]
_RUN_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,59}").fullmatch


class RunPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The request of a run. News published at ``cases_from`` <= time < ``cases_to`` (UTC); ``sample`` 0 means all of
    them.

    ``on_miss`` handles a case that asks for something never looked up: ``fail`` reports it, ``skip`` leaves it out,
    ``live`` looks it up now. ``prompts`` are complete, so that the topic documents the run. ``watch`` is chosen with the
    plan, before any result is known, and cannot change afterwards; None: the run is not watched. ``models`` are
    ``provider:model`` by task.
    """

    run_id: str
    prompts: dict[str, Prompt] = {}
    models: dict[str, str] = {}
    cases_from: datetime | None = None
    cases_to: datetime | None = None
    sample: int = 0
    repeat: int = 1
    on_miss: OnMiss = "fail"
    code_version: str = ""
    watch: Watch | None = None
    log: str = "journal"
    """The log of the cases: this installation's journal, the ``sample`` log that ships with the project, or the path of a file."""
    primary: str = ""
    """The primary metric of ``backtest compare``, declared before any result is known; "": the default."""

    @property
    def change(self) -> Change:
        """The difference from the recorded configuration."""
        return Change(prompts=self.prompts, models=self.models)

    @property
    def range_options(self) -> str:
        """The options that chose the cases, each followed by a space."""
        days = {"--from": self.cases_from, "--to": self.cases_to}
        given = [f"{name} {at.isoformat()} " for name, at in days.items() if at is not None]
        return option_of_log(self.log) + "".join(given) + (f"--sample {self.sample} " if self.sample else "")

    @property
    def label(self) -> str:
        """A readable summary of the change."""
        changed = [f"{p.name} v{p.version}" for p in self.prompts.values()]
        changed += [f"{task} by {model}" for task, model in self.models.items()]
        return ", ".join(changed) or "nothing changed (A/A)"

    @property
    def changes(self) -> str:
        """The change as JSON for the table ``runs``; the prompts' texts are on the run's topic."""
        prompts = {n: {"version": p.version, "hash": p.hash} for n, p in self.prompts.items()}
        every: dict[str, Any] = {"prompts": prompts, "repeat": self.repeat, "on_miss": self.on_miss}
        every |= ({"models": self.models} if self.models else {}) | ({"watch": self.watch} if self.watch else {})
        every |= {"primary": self.primary} if self.primary else {}
        every |= {"log": self.log} if self.log != "journal" else {}
        return msgspec.json.encode(every).decode()


def run_id_of(given: str | None, change: Change, now: datetime) -> str:
    """Return the given run id, or one derived from the change and the time.

    Raises:
        ConfigError: the id cannot be part of a topic name, or is reserved for live or research.
    """
    if given is None:
        what = change_name(change) or "aa"
        return re.sub(r"[^a-z0-9_-]", "-", f"{what}-{now:%Y%m%d-%H%M%S}".lower())
    if given in (LIVE_RUN, RESEARCH_RUN) or _RUN_ID(given) is None:
        raise ConfigError(
            f"--run-id {given!r}: write 1 to 60 of a-z, 0-9, - and _, beginning with a letter or digit, and not 'live' or 'research'"
        )
    return given


def change_name(change: Change) -> str:
    """Return a name of the change of at most 40 characters, as run ids are made of it; "" for no change."""
    prompts = [f"{p.name}-v{p.version}" for p in change.prompts.values()]
    return "-".join(sorted((*prompts, *(f"{task}-{model}" for task, model in change.models.items()))))[:40]
