"""Adapters to model providers, and their table. CONTRIBUTING.md lists the other files that a new provider needs."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

import msgspec

from infra.ports import Port
from infra.settings import Settings
from infra.settings.endpoints import Endpoint
from schemas.errors import ConfigError


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the table. ``missing`` names the setting that must be set first; None if nothing is missing."""

    name: str
    missing: str | None
    make: Callable[[Settings, str], Port]


def _gemini(settings: Settings, model: str) -> Port:
    from infra.models.call_costs import Prices
    from infra.models.gemini import GeminiModel
    from infra.models.gemini_client import GeminiClient

    assert settings.gemini_api_key is not None
    client = GeminiClient(
        api_key=settings.gemini_api_key.get_secret_value(),
        base_url=settings.gemini_base_url,
        timeout_s=settings.model_timeout_seconds,
    )
    return GeminiModel(client, model=model, prices=Prices())


def _gemini_missing(settings: Settings) -> str | None:
    return None if settings.gemini_api_key else "set GEMINI_API_KEY (https://aistudio.google.com/apikey)"


def _compatible(endpoint: Endpoint, settings: Settings, model: str) -> Port:
    from infra.models.openai_client import OpenAICompatibleClient
    from infra.models.openai_compatible import DIALECTS, LOCAL, OpenAICompatibleModel, service_of

    client = OpenAICompatibleClient(
        service_of(endpoint),
        api_key=None if endpoint.key is None else endpoint.key.get_secret_value(),
        base_url=endpoint.url,
        provider=endpoint.provider,
        timeout_s=settings.local_model_timeout_seconds if endpoint.local else settings.model_timeout_seconds,
    )
    dialect = DIALECTS.get(endpoint.provider, LOCAL if endpoint.local else None)
    return OpenAICompatibleModel(client, model=model, dialect=dialect)


def providers(settings: Settings) -> dict[str, Provider]:
    """Return the live providers by the name that precedes a model in settings, as in ``openai:gpt-5-mini``."""
    known = [Provider(name="gemini", missing=_gemini_missing(settings), make=_gemini)]
    for name, endpoint in settings.endpoints().items():
        known.append(Provider(name=name, missing=endpoint.missing, make=partial(_compatible, endpoint)))
    return {provider.name: provider for provider in known}


DEFAULT = "gemini"
"""Provider of models that are named without one."""

Route = tuple[tuple[str, str], ...]
"""(provider, model) pairs: the first choice, then its fallbacks in order."""


def routes(settings: Settings, tasks: frozenset[str] = frozenset()) -> dict[str, Route]:
    """Return the route of each tier ("light", "heavy"), and of each task in ``tasks`` that ``MODEL_TASKS`` names.

    Raises:
        ConfigError: a setting is invalid, or a key is missing; the text names the setting and its form.
    """
    known = providers(settings)
    light = "MODEL_LIGHT", settings.model_light, "MODEL_LIGHT_FALLBACK", settings.model_light_fallback
    heavy = "MODEL_HEAVY", settings.model_heavy, "MODEL_HEAVY_FALLBACK", settings.model_heavy_fallback
    routes_by_task = {"light": _route(known, *light), "heavy": _route(known, *heavy)}
    for entry in filter(None, (e.strip() for e in settings.model_tasks.split(","))):
        task, equals, models = (part.strip() for part in entry.partition("="))
        if not equals or task not in tasks:
            of_ours = ", ".join(sorted(tasks))
            raise ConfigError(
                f"MODEL_TASKS has {entry!r}: write task=provider:model|provider:model,…, the task one of {of_ours}"
            )
        first, *behind = models.split("|")
        routes_by_task[task] = _route(known, "MODEL_TASKS", first, "MODEL_TASKS", "|".join(behind))
    for provider, model in dict.fromkeys(target for route in routes_by_task.values() for target in route):
        if (missing := known[provider].missing) is not None:
            raise ConfigError(
                f"live mode calls {provider}:{model}, which needs a key: {missing}, choose another model, "
                "or set NEWSPROOF_MODE=offline to try it out without a key"
            )
    return routes_by_task


def live_models(
    settings: Settings, tasks: frozenset[str] = frozenset()
) -> tuple[dict[str, Port], dict[str, tuple[Port, ...]]]:
    """Return the first models and their fallbacks, by the keys of :func:`routes`; one adapter per model.

    Raises:
        ConfigError: as :func:`routes`, or a key or an address is invalid.
    """
    wanted, known = routes(settings, tasks), providers(settings)
    made = {
        target: known[target[0]].make(settings, target[1]) for target in {o for route in wanted.values() for o in route}
    }
    first = {name: made[route[0]] for name, route in wanted.items()}
    behind = {name: tuple(made[target] for target in route[1:]) for name, route in wanted.items() if len(route) > 1}
    return first, behind


def _route(known: Collection[str], setting: str, first: str, behind_setting: str, behind: str) -> Route:
    rest = (_model(known, behind_setting, name) for name in behind.split("|") if name.strip())
    return tuple(dict.fromkeys((_model(known, setting, first), *rest)))


def _model(known: Collection[str], setting: str, written: str) -> tuple[str, str]:
    """Return (provider, model). Only the first colon separates: ``ollama:qwen3:8b``."""
    provider, colon, model = (part.strip() for part in written.partition(":"))
    if not colon:
        provider, model = DEFAULT, provider
    if provider.lower() not in known or not model:
        raise ConfigError(
            f"{setting} is {written.strip()!r}: write provider:model, the provider one of {', '.join(known)} (others go into "
            "OPENAI_GATEWAYS), such as openai:gpt-5-mini"
        )
    return provider.lower(), model
