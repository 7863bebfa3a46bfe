"""Vectors of Gemini through google-genai: one request (``batchEmbedContents``) for one text, whatever happens."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from decimal import Decimal

import httpx
from google import genai
from google.genai import errors as vendor
from google.genai import types

from infra.http import UselessAnswerError, checked_address, checked_key, guarded_client, tls_context, transport_failure
from infra.models.embeddings.port import Embedded
from infra.models.embeddings.reading import embedded, most_tokens
from infra.models.gemini import DEFAULT_BASE_URL
from infra.models.gemini_failures import translate_status
from infra.models.prices import Prices
from schemas.errors import NewsproofError, PermanentError, TransientError

WITH_TASK_TYPES = ("gemini-embedding-001",)
"""Models that are told what a vector is for. Later ones take no such parameter (https://ai.google.dev/gemini-api/docs/embeddings)."""


class GeminiEmbedder:
    """One embedding model of Gemini; safe for concurrent calls within one event loop."""

    provider = "gemini"

    def __init__(
        self,
        *,
        api_key: str,
        model: str,
        dimensions: int,
        prices: Prices | None = None,
        base_url: str | None = None,
        timeout_s: float = 2.0,
        key_setting: str = "GEMINI_API_KEY",
        address_setting: str = "GEMINI_BASE_URL",
    ) -> None:
        """``timeout_s`` bounds a whole call. ``base_url`` None = Google's own address. ``*_setting`` name what to correct.

        Raises:
            ConfigError: the key or the address cannot be one.
        """
        address = checked_address(base_url or DEFAULT_BASE_URL, address_setting)
        self.model = model
        self.rows = f"gemini:{model}:{dimensions}"
        self._dimensions = dimensions
        self._prices = prices or Prices()
        self._timeout_s = timeout_s
        self._key_setting, self._address_setting = key_setting, address_setting
        self._http = guarded_client(address, timeout_s=timeout_s)
        self._client = genai.Client(
            api_key=checked_key(api_key, key_setting),
            vertexai=False,
            http_options=types.HttpOptions(
                base_url=address,
                timeout=max(1, round(timeout_s * 1000)),
                httpx_async_client=self._http,  # as infra.models.gemini: one attempt, our limits, no second set of certificates
                client_args={"verify": tls_context()},
                async_client_args={"ssl": tls_context()},
            ),
        )

    async def embed(self, text: str) -> Embedded:
        """Return the text's vector.

        Raises:
            TransientError: rate_limit, unavailable, timeout, network.
            PermanentError: auth, invalid_request, too_large, not_configured.
            UselessAnswerError: an answer that is no vector of these dimensions; it may have been paid.
        """
        asked_at = datetime.now(UTC)
        response = await self._ask(text)
        try:
            (only,) = response.embeddings or []
            usage = response.usage_metadata
            return embedded(
                only.values,
                text,
                dimensions=self._dimensions,
                tokens=usage.prompt_token_count if usage else None,
                prices=self._prices,
                model=self.model,
                asked_at=asked_at,
            )
        except (ValueError, TypeError) as exc:
            raise self._useless(exc) from exc

    def worst_case_usd(self, text: str) -> Decimal | None:
        """Return the price of as many tokens as this text can have; None when the price is unknown."""
        return self._prices.worst_case_usd(self.model, most_tokens(text), 0)

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        await self._client.aio.aclose()
        self._client.close()
        await self._http.aclose()

    async def _ask(self, text: str) -> types.EmbedContentResponse:
        likeness = "SEMANTIC_SIMILARITY" if self.model.removeprefix("models/") in WITH_TASK_TYPES else None
        config = types.EmbedContentConfig(output_dimensionality=self._dimensions, task_type=likeness)
        content = types.Content(parts=[types.Part(text=text)])
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._client.aio.models.embed_content(model=self.model, contents=content, config=config)
        except NewsproofError:
            raise  # from the transport: the body was too large or broken
        except vendor.APIError as exc:
            raise self._translated(exc) from exc
        except (TimeoutError, httpx.HTTPError, httpx.StreamError) as exc:
            raise transport_failure(exc, "Gemini", self._timeout_s) from exc
        except (ValueError, TypeError, AttributeError, KeyError, IndexError, RecursionError) as exc:
            raise self._useless(exc) from exc
        except Exception as exc:
            raise PermanentError(
                f"asking Gemini for a vector failed in an unforeseen way ({type(exc).__name__}: {exc}); please report this",
                kind="internal",
            ) from exc

    def _translated(self, exc: vendor.APIError) -> TransientError | PermanentError:
        ours = translate_status(exc, self.model, datetime.now(UTC))
        if ours.kind == "auth":
            text = f"Gemini refuses the key ({ours.status}); write a valid one into {self._key_setting}"
            return PermanentError(text, kind="auth", status=ours.status)
        if ours.status in {400, 404}:
            text = (
                f"Gemini makes no vector of {self._dimensions} numbers with {self.model!r} ({exc.message}); "
                "correct EMBEDDING_MODEL or EMBEDDING_DIMENSIONS"
            )
            return PermanentError(text, kind="invalid_request", status=ours.status)
        return ours

    def _useless(self, exc: Exception) -> UselessAnswerError:
        return UselessAnswerError(
            f"Gemini's answer is not a vector of {self._dimensions} numbers ({type(exc).__name__}); "
            f"check EMBEDDING_DIMENSIONS and {self._address_setting} if this goes on"
        )
