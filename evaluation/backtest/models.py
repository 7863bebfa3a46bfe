"""Candidate models of ``--model TASK=PROVIDER:MODEL``: another model for a task, as ``MODEL_TASKS`` would name it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agents.prompts import all_prompts
from infra.models import routes
from infra.settings import Settings
from schemas.errors import ConfigError


def candidate_models(settings: Settings, options: Sequence[str]) -> dict[str, str]:
    """Return ``provider:model`` by task.

    Raises:
        ConfigError: an option is malformed, the task or the provider does not exist, its key is missing, or this is not live
            mode, in which alone there are models to choose from.
    """
    tasks = frozenset(p.name for p in all_prompts())
    chosen: dict[str, str] = {}
    for option in options:
        task, equals, model = (part.strip() for part in option.partition("="))
        if not equals or task not in tasks or task in chosen:
            raise ConfigError(
                f"--model {option!r}: write TASK=PROVIDER:MODEL, such as synthesize=openai:gpt-5-mini, each task once, the task "
                f"one of {', '.join(sorted(tasks))}"
            )
        if settings.mode != "live":
            raise ConfigError(
                f"--model {option!r}: models are chosen in live mode alone, and this is {settings.mode} mode: set the "
                "provider's key, and NEWSPROOF_MODE=live"
            )
        try:
            (first,) = routes(settings.model_copy(update={"model_tasks": f"{task}={model}"}), tasks)[task]
        except (ConfigError, ValueError) as exc:
            raise ConfigError(f"--model {option!r}: one model, written as in MODEL_TASKS: {exc}") from exc
        chosen[task] = ":".join(first)
    return chosen


def with_models(settings: Settings, models: Mapping[str, str]) -> Settings:
    """Return the settings with these models for their tasks, without fallbacks: another model's answer would be no trial."""
    if not models:
        return settings
    kept = [e for e in settings.model_tasks.split(",") if e.strip() and e.partition("=")[0].strip() not in models]
    named = (f"{task}={model}" for task, model in models.items())
    return settings.model_copy(update={"model_tasks": ",".join((*kept, *named))})
