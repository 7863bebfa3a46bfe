"""The wire shapes of Gemini's ``batchEmbedContents`` and OpenAI's ``POST /v1/embeddings``.

https://ai.google.dev/api/embeddings and https://platform.openai.com/docs/api-reference/embeddings
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from infra.models.embeddings.gemini import GeminiEmbedder
from infra.models.embeddings.openai_compatible import OpenAICompatibleEmbedder, embedding_service
from infra.models.gemini_client import GeminiClient
from infra.models.openai_client import OpenAICompatibleClient
from tests.infra.fakes.server import Behaviour, FakeServer, Say

DIMENSIONS = 64


def numbers(*first: float, dimensions: int = DIMENSIONS) -> list[float]:
    """Return a vector that begins with these numbers; the rest is 0."""
    return [*first, *(0.0 for _ in range(dimensions - len(first)))]


def gemini_vector(values: Sequence[Any], *, tokens: int | None = None) -> Say:
    body: dict[str, Any] = {"embeddings": [{"values": list(values)}]}
    return Say(body if tokens is None else {**body, "usageMetadata": {"promptTokenCount": tokens}})


def openai_vector(values: Sequence[Any], *, tokens: int | None = 11, **more: Any) -> Say:
    usage = {} if tokens is None else {"usage": {"prompt_tokens": tokens, "total_tokens": tokens}}
    data = [{"object": "embedding", "index": 0, "embedding": list(values)}]
    return Say({"object": "list", "data": data, "model": "text-embedding-3-small", **usage, **more})


@asynccontextmanager
async def gemini(*script: Behaviour, **settings: Any) -> AsyncIterator[tuple[GeminiEmbedder, FakeServer]]:
    async with FakeServer(*script) as server:
        model = settings.pop("model", "gemini-embedding-001")
        client = GeminiClient(base_url=server.url, **{"api_key": "secret-key", **settings})
        embedder = GeminiEmbedder(client, model=model, dimensions=DIMENSIONS)
        try:
            yield embedder, server
        finally:
            await embedder.close()


@asynccontextmanager
async def openai(*script: Behaviour, **settings: Any) -> AsyncIterator[tuple[OpenAICompatibleEmbedder, FakeServer]]:
    async with FakeServer(*script) as server:
        service = embedding_service(
            settings.pop("key_setting", "OPENAI_API_KEY"), settings.pop("address_setting", "OPENAI_BASE_URL")
        )
        client = OpenAICompatibleClient(service, base_url=f"{server.url}/v1", **{"api_key": "sk-secret", **settings})
        embedder = OpenAICompatibleEmbedder(client, model="text-embedding-3-small", dimensions=DIMENSIONS)
        try:
            yield embedder, server
        finally:
            await embedder.close()
