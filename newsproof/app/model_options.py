"""Per-task settings that override the prompts' front matter (``MODEL_OPTIONS``). Cases pin them."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

import msgspec

from infra.settings import Settings
from schemas.config import Prompt
from schemas.errors import ConfigError

MAX_OUTPUT_TOKENS = 65_536
"""More than any of our prompts needs: with a typing error, one call would reserve the month's budget."""
MAX_TEMPERATURE = 2.0
"""The maximum of the providers' APIs."""


class Options(msgspec.Struct, frozen=True):
    """Overrides for one task; None: the prompt's own value."""

    temperature: float | None = None
    max_output_tokens: int | None = None


def options_of(settings: Settings) -> dict[str, Options]:
    """Return the options by task.

    Raises:
        ConfigError: an entry is malformed, or the task does not exist; the text says what to write.
    """
    entries = [e.strip() for e in settings.model_options.split(",") if e.strip()]
    if not entries:
        return {}
    from agents.prompts import every_task

    known = every_task()
    found: dict[str, Options] = {}
    for entry in entries:
        task, equals, written = (part.strip() for part in entry.partition("="))
        if not equals or task not in known or task in found:
            raise ConfigError(
                f"MODEL_OPTIONS has {entry!r}: write task=temperature:0.2|max_output_tokens:3000,…, each task once, the "
                f"task one of {', '.join(sorted(known))}"
            )
        found[task] = _options(entry, written)
    return found


def tuned_prompts(settings: Settings, prompts: Mapping[str, Prompt]) -> dict[str, Prompt]:
    """Return the prompts with the options of their tasks.

    Raises:
        ConfigError: as for :func:`options_of`.
    """
    options = options_of(settings)
    if not options:
        return dict(prompts)
    from agents.prompts import tuned

    return {
        name: tuned(prompt, temperature=o.temperature, max_output_tokens=o.max_output_tokens)
        if (o := options.get(name))
        else prompt
        for name, prompt in prompts.items()
    }


def _options(entry: str, written: str) -> Options:
    values: dict[str, float] = {}
    for one in written.split("|"):
        name, _, value = (part.strip() for part in one.partition(":"))
        try:
            values[name] = {"temperature": float, "max_output_tokens": int}[name](value)
        except (KeyError, ValueError) as exc:
            raise ConfigError(
                f"MODEL_OPTIONS has {entry!r}: write temperature:0.2 or max_output_tokens:3000, with | between"
            ) from exc
    warmth, most = values.get("temperature", 0.0), values.get("max_output_tokens", 1)
    if not isfinite(warmth) or not 0 <= warmth <= MAX_TEMPERATURE or not 1 <= most <= MAX_OUTPUT_TOKENS:
        raise ConfigError(
            f"MODEL_OPTIONS has {entry!r}: temperature is 0 to {MAX_TEMPERATURE:g}, max_output_tokens 1 to {MAX_OUTPUT_TOKENS}"
        )
    tokens = values.get("max_output_tokens")
    return Options(values.get("temperature"), None if tokens is None else int(tokens))
