"""Per-task settings that override the prompts' front matter (``MODEL_OPTIONS``). Cases pin them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, get_args

import msgspec

from infra.settings import Settings
from infra.settings.endpoints import Endpoint
from schemas.config import Prompt
from schemas.effects import MOST_OUTPUT_TOKENS, Thinking
from schemas.errors import ConfigError

MAX_TEMPERATURE = 2.0
"""Maximum in the providers' APIs."""


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Overrides for one task. None: the prompt's own value."""

    temperature: Annotated[float, msgspec.Meta(ge=0, le=MAX_TEMPERATURE)] | None = None
    max_output_tokens: Annotated[int, msgspec.Meta(ge=1, le=MOST_OUTPUT_TOKENS)] | None = None
    thinking: Thinking | None = None


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
    by_task: dict[str, Options] = {}
    for entry in entries:
        task, equals, written = (part.strip() for part in entry.partition("="))
        if not equals or task not in known or task in by_task:
            raise ConfigError(
                f"MODEL_OPTIONS has {entry!r}: write task=temperature:0.2|max_output_tokens:3000,…, each task once, the "
                f"task one of {', '.join(sorted(known))}"
            )
        by_task[task] = _options(entry, written)
    return by_task


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
        name: tuned(prompt, **msgspec.structs.asdict(options[name])) if name in options else prompt
        for name, prompt in prompts.items()
    }


def ignored_options(settings: Settings) -> tuple[str, ...]:
    """Return a sentence for each ``MODEL_OPTIONS`` entry that a model of its task is known to ignore.

    Raises:
        ConfigError: as for :func:`options_of` and :func:`infra.models.routes`.
    """
    options = options_of(settings)
    if not options or settings.mode != "live":
        return ()
    from agents.prompts import every_task, load_prompts
    from infra.models import routes
    from infra.models.gemini_parameters import takes_sampling

    route_of, news, chat = routes(settings, every_task()), load_prompts(), load_prompts("research")
    endpoints, notes = settings.endpoints(), list[str]()
    for task, chosen in options.items():
        tiers = {(news.get(task) or chat[task]).tier} | (
            {"heavy"} if task in news else set()
        )  # this model reads long news
        asked = dict.fromkeys(
            target for name in ((task,) if task in route_of else sorted(tiers)) for target in route_of[name]
        )
        cold = [m for provider, m in asked if provider == "gemini" and not takes_sampling(m)]
        if chosen.temperature is not None and cold:
            notes.append(f"{task}: temperature is ignored by {', '.join(cold)}, as by every Gemini from version 3 on")
        if chosen.thinking is None:
            continue
        if plain := [m for provider, m in asked if not _thinks(provider, m, chosen.thinking, endpoints)]:
            notes.append(f"{task}: thinking is ignored by {', '.join(plain)}, of which none is known")
    return tuple(notes)


def _thinks(provider: str, model: str, thinking: Thinking, endpoints: Mapping[str, Endpoint]) -> bool:
    from infra.models.gemini_parameters import thinking_config
    from infra.models.openai_thinking import effort_of

    if provider == "gemini":
        return thinking_config(model, thinking) is not None
    return effort_of(model, thinking, local=endpoints[provider].local)[1] > 0 or thinking == "off"


def _options(entry: str, written: str) -> Options:
    values = {name.strip(): value.strip() for name, _, value in (pair.partition(":") for pair in written.split("|"))}
    try:
        options = msgspec.convert(values, Options, strict=False)
        if missing := [name for name in values if getattr(options, name) is None]:
            raise msgspec.ValidationError(f"no value for {missing[0]}")
        return options
    except msgspec.ValidationError as exc:
        raise ConfigError(
            f"MODEL_OPTIONS has {entry!r} ({exc}): write temperature:0.2 (0 to {MAX_TEMPERATURE:g}), max_output_tokens:3000 (1 "
            f"to {MOST_OUTPUT_TOKENS}) or thinking:low ({', '.join(get_args(Thinking))}), with | between"
        ) from exc
