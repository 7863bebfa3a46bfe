"""The candidates of ``backtest run``: one plan per ``--candidate``, under one trial; without one, a single plan."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from msgspec.structs import replace

from agents.prompts import all_prompts
from infra.settings import Settings
from newsproof.evaluation.backtest.models import candidate_models
from newsproof.evaluation.backtest.prompts import candidate_prompts, prompt_name_of
from newsproof.evaluation.backtest.run.ledger import candidate_of
from newsproof.evaluation.backtest.run.plan import RunPlan, run_id_of
from schemas.errors import ConfigError

_TRIAL = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}").fullmatch


def plans_of(
    settings: Settings,
    plan: RunPlan,
    *,
    prompts: Sequence[str],
    models: Sequence[str],
    candidates: Sequence[str],
    run_id: str | None,
    trial: str | None,
    now: datetime,
) -> list[RunPlan]:
    """Return the plans to run. ``plan`` holds what they share; ``prompts`` and ``models`` are changed in each of them.

    A candidate is ``NAME=VERSION``, ``NAME=FILE``, ``FILE.md``, ``TASK=PROVIDER:MODEL``, or several of these with commas
    between. The run of a candidate is named by the trial and the hash of its change, so the same command goes on with it.

    Raises:
        ConfigError: an option is malformed, names what does not exist, or does not go with another one.
    """
    if not candidates:
        if trial is not None:
            raise ConfigError("--trial names a trial of several candidates: give them with --candidate")
        one = _changed(settings, plan, prompts, models)
        return [replace(one, run_id=run_id_of(run_id, one.change, now))]
    if run_id is not None:
        raise ConfigError(
            "--run-id names one run, and each --candidate has its own, made of the trial's: write --trial NAME"
        )
    name = trial if trial is not None else f"trial-{now:%Y%m%d-%H%M%S}"
    if _TRIAL(name) is None:
        raise ConfigError(f"--trial {name!r}: write 1 to 40 of a-z, 0-9, - and _, beginning with a letter or digit")
    plans = [replace(_candidate(settings, plan, prompts, models, written), trial=name) for written in candidates]
    named = [replace(p, run_id=run_id_of(f"{name}-{candidate_of(p)[:8]}", p.change, now)) for p in plans]
    for n, one in enumerate(named):
        if one.run_id in [other.run_id for other in named[:n]]:
            raise ConfigError(f"--candidate {candidates[n]!r} changes what another candidate changes: leave one out")
    return named


def _candidate(
    settings: Settings, plan: RunPlan, prompts: Sequence[str], models: Sequence[str], written: str
) -> RunPlan:
    names = {p.name for p in all_prompts()}
    parts = [part.strip() for part in written.split(",")]
    of_models = [part for part in parts if _names_a_model(part)]
    of_prompts = [
        p if p.partition("=")[0] in names else f"{prompt_name_of(Path(p))}={p}" for p in parts if p not in of_models
    ]
    return _changed(settings, plan, (*prompts, *of_prompts), (*models, *of_models))


def _names_a_model(part: str) -> bool:
    _, equals, wanted = part.partition("=")
    return bool(equals) and ":" in wanted and not wanted.endswith(".md")


def _changed(settings: Settings, plan: RunPlan, prompts: Sequence[str], models: Sequence[str]) -> RunPlan:
    return replace(plan, prompts=candidate_prompts(settings, prompts), models=candidate_models(settings, models))
