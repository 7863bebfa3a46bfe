"""Adapters to search providers, and the table of them.

To add a provider, write its adapter and add one row here; CONTRIBUTING.md lists its settings, role and tests.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from urllib.parse import urlsplit

import msgspec
from pydantic import SecretStr

from infra.ports import Port
from infra.settings import Settings
from schemas.errors import ConfigError


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """One row. ``missing`` says which setting must be set first, None when nothing is missing.

    ``by_default``: it is asked as soon as nothing is missing, where ``DEEP_ANALYSIS_SEARCH_PROVIDER`` names none.
    ``by_topic``: it has a search of news apart, so news, official pages and the rest are asked for one by one.
    ``billed``: it bills each request, so ``SEARCH_REQUESTS_PER_MESSAGE`` counts them.
    ``make``: None where it searches our own log: no setting concerns it, and the composition of the process makes it.
    """

    name: str
    about: str
    missing: Callable[[Settings], str | None]
    make: Callable[[Settings], Port] | None
    by_default: bool = False
    by_topic: bool = False
    billed: bool = False


KEYLESS = "gdelt"
"""What is asked where ``DEEP_ANALYSIS_SEARCH_PROVIDER`` names none, and no other provider is set up."""

FEEDS = "feeds"
"""What is asked besides where ``DEEP_ANALYSIS_SEARCH_PROVIDER`` names none, and listeners are there (``LISTEN``)."""


def provider_names(settings: Settings) -> tuple[str, ...]:
    """Return the names in ``DEEP_ANALYSIS_SEARCH_PROVIDER``, lower-case, without duplicates, in order.

    Where it names none: every provider ``by_default`` that lacks nothing, else :data:`KEYLESS`; with listeners
    :data:`FEEDS` too; and those that ``SEARCH_ROLES`` names.
    """
    names = (name.strip().lower() for name in settings.deep_analysis_search_provider.split(","))
    if written := tuple(dict.fromkeys(name for name in names if name)):
        return written
    named = {name for names in role_settings(settings).values() for name in names if name in PROVIDERS}
    asked = (*(_ready(settings) or (KEYLESS,)), *((FEEDS,) if settings.listen else ()), *named)
    return tuple(name for name in PROVIDERS if name in asked)


def is_keyless_default(settings: Settings) -> bool:
    """Return whether :data:`KEYLESS` is asked because nothing else was chosen and no search key is set."""
    return not settings.deep_analysis_search_provider.strip(" ,") and not _ready(settings)


def _ready(settings: Settings) -> tuple[str, ...]:
    return tuple(
        provider.name for provider in PROVIDERS.values() if provider.by_default and provider.missing(settings) is None
    )


def role_settings(settings: Settings) -> dict[str, tuple[str, ...]]:
    """Return the rows of ``SEARCH_ROLES``, such as ``verification=ragflow|tavily|arxiv, event:hack=protocol_research``.

    Raises:
        ConfigError: a row has another form, or names neither providers nor roles.
    """
    rows = {}
    for part in filter(None, (part.strip() for part in settings.search_roles.split(","))):
        key, _, written = (piece.strip() for piece in part.partition("="))
        names = tuple(filter(None, (name.strip().lower() for name in written.split("|"))))
        # A role lists providers; what an event, a depth or an order has are roles.
        unknown = [name for name in names if name not in PROVIDERS] if ":" not in key else []
        if not key or not names or unknown:
            raise ConfigError(
                f"SEARCH_ROLES has {part!r}: write role=provider|provider or event:type=role, with providers of "
                f"{', '.join(PROVIDERS)}"
            )
        rows[key] = names
    return rows


def search_roles(settings: Settings, table: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Return the table of roles (``agents/tables/search_roles.json``) with the rows of ``SEARCH_ROLES`` instead of its own.

    Raises:
        ConfigError: as for :func:`role_settings`, or a row names a role that is in neither.
    """
    roles = dict(table) | role_settings(settings)
    for key, names in roles.items():
        if ":" in key and (unknown := [name for name in names if name not in roles]):
            raise ConfigError(
                f"SEARCH_ROLES gives {key} the role {', '.join(unknown)}, which does not exist: choose from "
                f"{', '.join(role for role in roles if ':' not in role)}, or add {unknown[0]}=provider|provider"
            )
    return roles


def include_domains(settings: Settings) -> tuple[str, ...]:
    """Return the domains that live searches are limited to; empty = the whole web."""
    return tuple(d.strip() for d in settings.search_include_domains.split(",") if d.strip())


def is_within(url: str, domains: Collection[str]) -> bool:
    """Return whether an address is on one of the domains, or of a host below one; of no domains: always."""
    host = urlsplit(url).hostname or ""
    return not domains or any(host == d or host.endswith("." + d) for d in domains)


def by_provider(setting: str, written: str, *, most: float) -> dict[str, float]:
    """Return a number for every provider from a setting such as ``50,gdelt=20``.

    Raises:
        ConfigError: it has another form, names no provider, or a number is not within 0 and ``most``.
    """
    first, *others = (part.strip() for part in written.split(","))
    named = dict.fromkeys(PROVIDERS, first)
    for part in others:
        name, _, number = (piece.strip() for piece in part.partition("="))
        if name not in PROVIDERS:
            raise ConfigError(
                f"{setting.upper()} has {part!r}: write name=number, the name one of {', '.join(PROVIDERS)}"
            )
        named[name] = number
    try:
        numbers = {name: float(number) for name, number in named.items()}
    except ValueError as exc:
        raise ConfigError(f"{setting.upper()} is {written!r}: write a number, then others as name=number") from exc
    if not all(0 <= number <= most for number in numbers.values()):
        raise ConfigError(f"{setting.upper()} is {written!r}: write numbers from 0 to {most:g}")
    return numbers


def _value(secret: SecretStr | None) -> str:
    return secret.get_secret_value() if secret is not None else ""


def _ragflow(settings: Settings) -> Port:
    from infra.search.ragflow import RagflowSearch

    return RagflowSearch(
        endpoint=settings.ragflow_endpoint or "",
        api_key=_value(settings.ragflow_api_key),
        dataset_ids=settings.ragflow_dataset_id.split(","),
        timeout_s=settings.deep_analysis_tool_timeout,
    )


def _ragflow_missing(settings: Settings) -> str | None:
    wanted = {
        "RAGFLOW_ENDPOINT": settings.ragflow_endpoint,
        "RAGFLOW_API_KEY": settings.ragflow_api_key,
        "RAGFLOW_DATASET_ID": settings.ragflow_dataset_id.strip(),
    }
    absent = [name for name, value in wanted.items() if not value]
    return f"set {', '.join(absent)}" if absent else None


def _bocha(settings: Settings) -> Port:
    from infra.search.bocha import BochaSearch

    return BochaSearch(
        api_key=_value(settings.bocha_api_key),
        base_url=settings.bocha_base_url,
        timeout_s=settings.deep_analysis_tool_timeout,
        include_domains=include_domains(settings),
        unit_cost_usd=settings.bocha_cost_usd,
    )


def _bocha_missing(settings: Settings) -> str | None:
    if not settings.bocha_enabled:
        return "set BOCHA_ENABLED=true"
    return None if settings.bocha_api_key else "set BOCHA_API_KEY (https://open.bochaai.com)"


def _tavily(settings: Settings) -> Port:
    from infra.search.tavily import TavilySearch

    return TavilySearch(
        api_key=_value(settings.tavily_api_key),
        base_url=settings.tavily_base_url,
        timeout_s=settings.deep_analysis_tool_timeout,
        include_domains=include_domains(settings),
        unit_cost_usd=settings.search_cost_usd,
    )


def _tavily_missing(settings: Settings) -> str | None:
    return None if settings.tavily_api_key else "set TAVILY_API_KEY (https://app.tavily.com)"


def _arxiv(settings: Settings) -> Port:
    from infra.search.arxiv import ArxivSearch

    return ArxivSearch(
        base_url=settings.arxiv_base_url,
        timeout_s=settings.deep_analysis_tool_timeout,
        focus_recent=settings.arxiv_focus_recent,
    )


def _searxng(settings: Settings) -> Port:
    from infra.search.searxng import SearxngSearch

    return SearxngSearch(base_url=settings.searxng_url or "", timeout_s=settings.deep_analysis_tool_timeout)


def _searxng_missing(settings: Settings) -> str | None:
    return None if settings.searxng_url else "set SEARXNG_URL, the address of an instance of your own"


def _gdelt(settings: Settings) -> Port:
    from infra.search.gdelt import GdeltSearch
    from infra.search.pace import Pace

    return GdeltSearch(
        base_url=settings.gdelt_base_url,
        timeout_s=settings.gdelt_timeout_seconds,
        pace=Pace("GDELT", interval_s=settings.gdelt_interval_seconds, max_wait_s=30.0),
    )


def _nothing(_settings: Settings) -> None:
    return None


PROVIDERS: dict[str, Provider] = {
    provider.name: provider
    for provider in (
        Provider(name="ragflow", about="own knowledge base", missing=_ragflow_missing, make=_ragflow, by_default=True),
        Provider(name="bocha", about="Chinese web", missing=_bocha_missing, make=_bocha, by_default=True, billed=True),
        Provider(
            name="tavily",
            about="international web",
            missing=_tavily_missing,
            make=_tavily,
            by_default=True,
            by_topic=True,
            billed=True,
        ),
        Provider(
            name="searxng",
            about="own metasearch",
            missing=_searxng_missing,
            make=_searxng,
            by_default=True,
            by_topic=True,
        ),
        Provider(name="feeds", about="what listeners brought in; needs no key", missing=_nothing, make=None),
        Provider(name="gdelt", about="titles of world news; needs no key", missing=_nothing, make=_gdelt),
        Provider(name="arxiv", about="papers; needs no key", missing=_nothing, make=_arxiv),
    )
}
"""Live providers by name, in order of priority: of a page that several find, the first one's is kept."""
