"""Adapters to model providers, and the table of them. CONTRIBUTING.md lists what else a new one touches."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from infra.ports import Port
from infra.settings import Settings
from schemas.errors import ConfigError


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """One row. ``missing`` says which setting must be set first, None when nothing is missing."""

    name: str
    missing: Callable[[Settings], str | None]
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


def _openai(settings: Settings, model: str) -> Port:
    from infra.models.openai_client import OpenAICompatibleClient
    from infra.models.openai_compatible import SERVICE, OpenAICompatibleModel

    assert settings.openai_api_key is not None
    client = OpenAICompatibleClient(
        SERVICE,
        api_key=settings.openai_api_key.get_secret_value(),
        base_url=settings.openai_base_url,
        timeout_s=settings.model_timeout_seconds,
    )
    return OpenAICompatibleModel(client, model=model)


def _gemini_missing(settings: Settings) -> str | None:
    return None if settings.gemini_api_key else "set GEMINI_API_KEY (https://aistudio.google.com/apikey)"


def _openai_missing(settings: Settings) -> str | None:
    return (
        None if settings.openai_api_key else "set OPENAI_API_KEY (and OPENAI_BASE_URL for another endpoint than OpenAI)"
    )


PROVIDERS: dict[str, Provider] = {
    "gemini": Provider(name="gemini", missing=_gemini_missing, make=_gemini),
    "openai": Provider(name="openai", missing=_openai_missing, make=_openai),
}
"""Live providers by the name that precedes a model in settings, as in ``openai:gpt-5-mini``."""
DEFAULT = "gemini"
"""Provider of a model that is named without one."""

Route = tuple[tuple[str, str], ...]
"""(provider, model) pairs: the first choice, then its fallbacks in order."""


def routes(settings: Settings, tasks: frozenset[str] = frozenset()) -> dict[str, Route]:
    """Return the route of each tier ("light", "heavy"), and of each task of ``tasks`` that ``MODEL_TASKS`` names.

    Raises:
        ConfigError: names the setting, and what to write there or which key is missing.
    """
    found = {
        "light": _route("MODEL_LIGHT", settings.model_light, "MODEL_LIGHT_FALLBACK", settings.model_light_fallback),
        "heavy": _route("MODEL_HEAVY", settings.model_heavy, "MODEL_HEAVY_FALLBACK", settings.model_heavy_fallback),
    }
    for entry in filter(None, (e.strip() for e in settings.model_tasks.split(","))):
        task, equals, models = (part.strip() for part in entry.partition("="))
        if not equals or task not in tasks:
            known = ", ".join(sorted(tasks))
            raise ConfigError(
                f"MODEL_TASKS has {entry!r}: write task=provider:model|provider:model,…, the task one of {known}"
            )
        first, *behind = models.split("|")
        found[task] = _route("MODEL_TASKS", first, "MODEL_TASKS", "|".join(behind))
    for provider, model in dict.fromkeys(one for route in found.values() for one in route):
        if (missing := PROVIDERS[provider].missing(settings)) is not None:
            raise ConfigError(
                f"live mode asks {provider}:{model}, which needs a key: {missing}, name another model, "
                "or NEWSPROOF_MODE=offline to try things out without one"
            )
    return found


def live_models(
    settings: Settings, tasks: frozenset[str] = frozenset()
) -> tuple[dict[str, Port], dict[str, tuple[Port, ...]]]:
    """Return the first models and their fallbacks, by the names of :func:`routes`; one adapter per model.

    Raises:
        ConfigError: as :func:`routes`, or a key or an address is invalid.
    """
    wanted = routes(settings, tasks)
    made = {one: PROVIDERS[one[0]].make(settings, one[1]) for one in {o for route in wanted.values() for o in route}}
    first = {name: made[route[0]] for name, route in wanted.items()}
    behind = {name: tuple(made[one] for one in route[1:]) for name, route in wanted.items() if len(route) > 1}
    return first, behind


def _route(setting: str, first: str, behind_setting: str, behind: str) -> Route:
    rest = (_model(behind_setting, one) for one in behind.split("|") if one.strip())
    return tuple(dict.fromkeys((_model(setting, first), *rest)))


def _model(setting: str, written: str) -> tuple[str, str]:
    provider, colon, model = (part.strip() for part in written.partition(":"))
    if not colon:
        provider, model = DEFAULT, provider
    if provider.lower() not in PROVIDERS or not model:
        raise ConfigError(
            f"{setting} is {written.strip()!r}: write provider:model, the provider one of {', '.join(PROVIDERS)}, "
            "such as openai:gpt-5-mini"
        )
    return provider.lower(), model
