"""Vectors of any endpoint that speaks OpenAI's ``POST /embeddings``: OpenAI itself, Qwen, Mistral, vLLM, Ollama, gateways."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

import httpx
import orjson

from infra.http import UselessAnswerError, checked_address, checked_key, guarded_client
from infra.http_json import Service, exchange, json_object, own_words, refused
from infra.models.embeddings.port import Embedded
from infra.models.embeddings.reading import embedded, most_tokens
from infra.models.openai_compatible import DEFAULT_BASE_URL, PRICE_LISTS, UNLISTED, plan_used_up
from infra.models.prices import Prices
from schemas.errors import NewsproofError, PermanentError


class OpenAICompatibleEmbedder:
    """One embedding model; safe for concurrent calls within one event loop.

    ``dimensions`` is sent where the server takes it; one that refuses the field by name is not sent it again, and its vectors
    have to be of that many numbers by themselves.
    """

    provider = "openai"

    def __init__(
        self,
        *,
        api_key: str,
        model: str,
        dimensions: int,
        prices: Prices | None = None,
        base_url: str | None = None,
        timeout_s: float = 2.0,
        key_setting: str = "OPENAI_API_KEY",
        address_setting: str = "OPENAI_BASE_URL",
    ) -> None:
        """``timeout_s`` bounds a whole call. ``prices`` None = the list of the address' host, if known.

        Raises:
            ConfigError: the key or the address cannot be one.
        """
        address = checked_address(base_url or DEFAULT_BASE_URL, address_setting)
        self.model = model
        self.rows = f"openai:{model}:{dimensions}"
        self._url = address.rstrip("/") + "/embeddings"
        self._dimensions = dimensions
        self._sends_dimensions = True
        self._prices = prices or Prices(provider=PRICE_LISTS.get(urlsplit(address).hostname or "", UNLISTED))
        self._timeout_s = timeout_s
        self._service = Service(
            name="The OpenAI-compatible embedding model",
            address_setting=address_setting,
            key_setting=key_setting,
            correct="correct EMBEDDING_MODEL or EMBEDDING_DIMENSIONS",
        )
        key = checked_key(api_key, key_setting)
        self._http = guarded_client(address, timeout_s=timeout_s, headers={"authorization": f"Bearer {key}"})

    async def embed(self, text: str) -> Embedded:
        """Return the text's vector.

        Raises:
            TransientError: rate_limit, unavailable, timeout, network.
            PermanentError: auth, plan_limit, invalid_request, too_large, not_configured.
            UselessAnswerError: an answer that is no vector of these dimensions; it may have been paid.
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
                f"{self._service.name}'s answer is not one vector of {self._dimensions} numbers ({exc!s:.80}); check "
                f"EMBEDDING_DIMENSIONS and {self._service.address_setting} if this goes on"
            ) from exc

    def worst_case_usd(self, text: str) -> Decimal | None:
        """Return the price of as many tokens as this text can have; None when the price is unknown."""
        return self._prices.worst_case_usd(self.model, most_tokens(text), 0)

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        await self._http.aclose()

    async def _ask(self, text: str) -> dict[str, Any]:
        while True:
            sent = self._sends_dimensions
            content: dict[str, Any] = {"model": self.model, "input": text, "encoding_format": "float"}
            if sent:
                content["dimensions"] = self._dimensions
            request = self._http.build_request(
                "POST", self._url, content=orjson.dumps(content), headers={"content-type": "application/json"}
            )
            response = await exchange(self._http, request, self._service, self._timeout_s)
            if response.status_code == 200:
                return json_object(response, self._service)
            said = own_words(response, "error", "message")
            if response.status_code in {400, 422} and sent and "dimensions" in said:
                self._sends_dimensions = False  # such a refusal computes nothing and costs nothing
                continue
            raise self._failure(response, said)

    def _failure(self, response: httpx.Response, said: str) -> NewsproofError:
        if (used_up := plan_used_up(response, said, self._service)) is not None:
            return used_up
        status = response.status_code
        if status == 404:
            text = (
                f"{self._service.name}'s server has no {self.model!r} at this address ({said}); "
                f"correct EMBEDDING_MODEL or {self._service.address_setting}"
            )
            return PermanentError(text, kind="invalid_request", status=status)
        return refused(self._service, status, said, response.headers)
