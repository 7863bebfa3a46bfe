"""The wire shapes of Gemini's ``batchEmbedContents`` and OpenAI's ``POST /v1/embeddings``.

https://ai.google.dev/api/embeddings and https://platform.openai.com/docs/api-reference/embeddings
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from infra.models.embeddings.gemini import GeminiEmbedder
from infra.models.embeddings.openai_compatible import OpenAICompatibleEmbedder
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
        given: dict[str, Any] = {"api_key": "secret-key", "model": "gemini-embedding-001", "dimensions": DIMENSIONS}
        embedder = GeminiEmbedder(base_url=server.url, **{**given, "timeout_s": 30.0, **settings})
        try:
            yield embedder, server
        finally:
            await embedder.close()


@asynccontextmanager
async def openai(*script: Behaviour, **settings: Any) -> AsyncIterator[tuple[OpenAICompatibleEmbedder, FakeServer]]:
    async with FakeServer(*script) as server:
        given: dict[str, Any] = {"api_key": "sk-secret", "model": "text-embedding-3-small", "dimensions": DIMENSIONS}
        embedder = OpenAICompatibleEmbedder(base_url=f"{server.url}/v1", **{**given, "timeout_s": 30.0, **settings})
        try:
            yield embedder, server
        finally:
            await embedder.close()
