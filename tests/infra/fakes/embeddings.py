"""The wire shapes of Gemini's ``batchEmbedContents`` and OpenAI's ``POST /v1/embeddings``.

https://ai.google.dev/api/embeddings and https://platform.openai.com/docs/api-reference/embeddings
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from infra.models.embeddings.gemini import GeminiEmbedder
from infra.models.embeddings.openai_compatible import OpenAICompatibleEmbedder, embedding_service
from infra.models.gemini_client import GeminiClient
from infra.models.openai_client import OpenAICompatibleClient
from tests.infra.fakes.server import Behaviour, FakeServer, Say, against

DIMENSIONS = 64


def numbers(*first: float, dimensions: int = DIMENSIONS) -> list[float]:
    """Return a vector that begins with these numbers; the rest is 0."""
    return [*first, *(0.0 for _ in range(dimensions - len(first)))]


def gemini_vectors(*vectors: Sequence[Any], tokens: int | None = None) -> Say:
    body: dict[str, Any] = {"embeddings": [{"values": list(values)} for values in vectors]}
    return Say(body if tokens is None else {**body, "usageMetadata": {"promptTokenCount": tokens}})


def openai_vectors(*vectors: Sequence[Any], tokens: int | None = 11, model: str = "text-embedding-3-small") -> Say:
    usage = {} if tokens is None else {"usage": {"prompt_tokens": tokens, "total_tokens": tokens}}
    data = [{"object": "embedding", "index": n, "embedding": list(values)} for n, values in enumerate(vectors)]
    return Say({"object": "list", "data": data, "model": model, **usage})


def gemini_adapter(
    url: str, *, model: str = "gemini-embedding-001", dimensions: int = DIMENSIONS, **settings: Any
) -> GeminiEmbedder:
    client = GeminiClient(base_url=url, **{"api_key": "AIza-secret", **settings})
    return GeminiEmbedder(client, model=model, dimensions=dimensions)


def openai_adapter(
    url: str,
    *,
    model: str = "text-embedding-3-small",
    dimensions: int = DIMENSIONS,
    key_setting: str = "OPENAI_API_KEY",
    address_setting: str = "OPENAI_BASE_URL",
    **settings: Any,
) -> OpenAICompatibleEmbedder:
    service = embedding_service(key_setting, address_setting)
    client = OpenAICompatibleClient(service, base_url=f"{url}/v1", **{"api_key": "sk-secret", **settings})
    return OpenAICompatibleEmbedder(client, model=model, dimensions=dimensions)


def gemini(*script: Behaviour, **settings: Any) -> AbstractAsyncContextManager[tuple[GeminiEmbedder, FakeServer]]:
    return against(gemini_adapter, *script, **settings)


def openai(
    *script: Behaviour, **settings: Any
) -> AbstractAsyncContextManager[tuple[OpenAICompatibleEmbedder, FakeServer]]:
    return against(openai_adapter, *script, **settings)
