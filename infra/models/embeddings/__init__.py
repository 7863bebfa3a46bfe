"""Embeddings for comparing texts, and the table of their providers. To add one, write its adapter and a row here."""

from __future__ import annotations

from collections.abc import Callable

from infra.models.embeddings.port import Embedder
from infra.settings import Settings
from infra.settings.endpoints import is_local
from schemas.errors import ConfigError

DEFAULT_MODELS = {"gemini": "gemini-embedding-2", "openai": "text-embedding-3-small"}


def _gemini(settings: Settings) -> Embedder:
    from infra.models.embeddings.gemini import GeminiEmbedder
    from infra.models.gemini_client import GeminiClient

    key, key_setting = _key(settings, "GEMINI_API_KEY")
    client = GeminiClient(
        api_key=key,
        key_setting=key_setting,
        base_url=settings.embedding_base_url or settings.gemini_base_url,
        address_setting="EMBEDDING_BASE_URL" if settings.embedding_base_url else "GEMINI_BASE_URL",
        timeout_s=settings.embedding_timeout_seconds,
    )
    return GeminiEmbedder(
        client, model=settings.embedding_model or DEFAULT_MODELS["gemini"], dimensions=settings.embedding_dimensions
    )


def _openai(settings: Settings) -> Embedder:
    from infra.models.embeddings.openai_compatible import OpenAICompatibleEmbedder, embedding_service
    from infra.models.openai_client import OpenAICompatibleClient

    address_setting = "EMBEDDING_BASE_URL" if settings.embedding_base_url else "OPENAI_BASE_URL"
    address = settings.embedding_base_url or settings.openai_base_url
    key: str | None = None
    key_setting = "EMBEDDING_API_KEY"
    if settings.embedding_api_key or settings.openai_api_key or address is None or not is_local(address):
        key, key_setting = _key(settings, "OPENAI_API_KEY")
    client = OpenAICompatibleClient(
        embedding_service(key_setting, address_setting),
        api_key=key,
        base_url=address,
        timeout_s=settings.embedding_timeout_seconds,
    )
    return OpenAICompatibleEmbedder(
        client, model=settings.embedding_model or DEFAULT_MODELS["openai"], dimensions=settings.embedding_dimensions
    )


PROVIDERS: dict[str, Callable[[Settings], Embedder]] = {"gemini": _gemini, "openai": _openai}


def embedder_of(settings: Settings) -> Embedder | None:
    """Return the embedding model of live mode; None = the hashing vector, which every other mode uses.

    Raises:
        ConfigError: the key is missing, or a key or an address is invalid.
    """
    if settings.mode != "live" or settings.embedding_provider == "offline":
        return None
    return PROVIDERS[settings.embedding_provider](settings)


def _key(settings: Settings, shared: str) -> tuple[str, str]:
    own, other = settings.embedding_api_key, getattr(settings, shared.lower())
    if own is None and other is None:
        raise ConfigError(
            f"EMBEDDING_PROVIDER={settings.embedding_provider} needs a key: set {shared}, or EMBEDDING_API_KEY for a "
            "separate key; EMBEDDING_PROVIDER=offline compares texts without a provider"
        )
    return (own or other).get_secret_value(), "EMBEDDING_API_KEY" if own else shared
