"""Embeddings from any endpoint with OpenAI's ``POST /embeddings``: OpenAI, Qwen, Mistral, vLLM, Ollama, gateways."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import httpx

from infra.http import UselessAnswerError
from infra.http_json import Service, error_message, json_object, refused
from infra.models.embeddings.port import Embedded, embedded, most_tokens
from infra.models.openai_client import OpenAICompatibleClient
from schemas.errors import NewsproofError


def embedding_service(key_setting: str, address_setting: str) -> Service:
    """Return the endpoint's name and settings for error messages."""
    return Service(
        name="The OpenAI-compatible embedding model",
        address_setting=address_setting,
        key_setting=key_setting,
        correct="correct EMBEDDING_MODEL or EMBEDDING_DIMENSIONS",
    )


class OpenAICompatibleEmbedder:
    """An embedding model. Safe for concurrent calls within one event loop.

    ``dimensions`` is sent until the server rejects the field by name. After that, the model's default vectors must have
    that size.
    """

    provider = "openai"

    def __init__(self, client: OpenAICompatibleClient, *, model: str, dimensions: int) -> None:
        self.model = model
        self.rows = f"openai:{model}:{dimensions}"
        self._client, self._dimensions, self._prices = client, dimensions, client.prices
        self._sends_dimensions = True

    async def embed(self, text: str) -> Embedded:
        """Return the text's vector.

        Raises:
            TransientError: rate_limit, unavailable, timeout, network.
            PermanentError: auth, plan_limit, not_open, invalid_request, too_large, not_configured.
            UselessAnswerError: the response is not a vector of these dimensions; it may have been billed.
        """
        asked_at = datetime.now(UTC)
        body = await self._ask(text)
        try:
            (only,) = body["data"]
            usage = body.get("usage")
            return embedded(
                only["embedding"],
                text,
                dimensions=self._dimensions,
                tokens=usage.get("prompt_tokens") if isinstance(usage, dict) else None,
                prices=self._prices,
                model=self.model,
                asked_at=asked_at,
            )
        except (ValueError, TypeError, KeyError) as exc:
            raise UselessAnswerError(
                f"{self._client.service.name}'s response is not one vector of {self._dimensions} numbers ({exc!s:.80}); check "
                f"EMBEDDING_DIMENSIONS and {self._client.service.address_setting} if this persists"
            ) from exc

    def worst_case_usd(self, text: str) -> Decimal | None:
        """Return the price for the maximum number of the text's tokens; None = the price is unknown."""
        return self._prices.worst_case_usd(self.model, most_tokens(text), 0)

    async def close(self) -> None:
        await self._client.close()

    async def _ask(self, text: str) -> dict[str, Any]:
        while True:
            sent = self._sends_dimensions
            content: dict[str, Any] = {"model": self.model, "input": text, "encoding_format": "float"}
            if sent:
                content["dimensions"] = self._dimensions
            response = await self._client.post("/embeddings", content, timeout_s=self._client.timeout_s)
            if response.status_code == 200:
                return json_object(response, self._client.service)
            message = error_message(response, "error", "message")
            if response.status_code in {400, 422} and sent and "dimensions" in message:
                self._sends_dimensions = False  # such a rejection costs nothing, because nothing was computed
                continue
            raise self._failure(response, message)

    def _failure(self, response: httpx.Response, message: str) -> NewsproofError:
        ended = self._client.unavailable(response, message, self.model, named_by="EMBEDDING_MODEL")
        return ended or refused(self._client.service, response.status_code, message, response.headers)
