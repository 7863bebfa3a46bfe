"""Gemini embeddings. Each text is one ``batchEmbedContents`` request, without retries."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

from google.genai import errors as vendor
from google.genai import types

from infra.http import UselessAnswerError
from infra.models.call_costs import Prices
from infra.models.embeddings.port import Embedded, embedded, most_tokens
from infra.models.gemini_client import GeminiClient, translate_status
from schemas.errors import PermanentError, TransientError

WITH_TASK_TYPES = ("gemini-embedding-001",)
"""Models that accept a task type; later models do not (https://ai.google.dev/gemini-api/docs/embeddings)."""


class GeminiEmbedder:
    """A Gemini embedding model. Safe for concurrent calls within one event loop."""

    provider = "gemini"

    def __init__(self, client: GeminiClient, *, model: str, dimensions: int) -> None:
        self.model = model
        self.rows = f"gemini:{model}:{dimensions}"
        self._client, self._dimensions, self._prices = client, dimensions, Prices()

    async def embed(self, text: str) -> Embedded:
        """Return the text's vector.

        Raises:
            TransientError: rate_limit, unavailable, timeout, network.
            PermanentError: auth, not_open, invalid_request, too_large, not_configured.
            UselessAnswerError: the response is not a vector of these dimensions; it may have been billed.
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
        """Return the price for the maximum number of the text's tokens; None = the price is unknown."""
        return self._prices.worst_case_usd(self.model, most_tokens(text), 0)

    async def close(self) -> None:
        await self._client.close()

    async def _ask(self, text: str) -> types.EmbedContentResponse:
        likeness = "SEMANTIC_SIMILARITY" if self.model.removeprefix("models/") in WITH_TASK_TYPES else None
        config = types.EmbedContentConfig(output_dimensionality=self._dimensions, task_type=likeness)
        content = types.Content(parts=[types.Part(text=text)])
        return await self._client.ask(
            self._client.models.embed_content(model=self.model, contents=content, config=config),
            doing="asking Gemini for a vector",
            refused=self._refused,
            useless=self._useless,
        )

    def _refused(self, exc: vendor.APIError) -> TransientError | PermanentError:
        ours = translate_status(exc, self.model)
        if ours.kind == "auth":
            text = f"Gemini refuses the key ({ours.status}); write a valid one into {self._client.key_setting}"
            return PermanentError(text, kind="auth", status=ours.status)
        if ours.kind in {"invalid_request", "not_open"}:
            text = (
                f"Gemini makes no vector of {self._dimensions} numbers with {self.model!r} ({exc.message}); "
                "correct EMBEDDING_MODEL or EMBEDDING_DIMENSIONS"
            )
            return PermanentError(text, kind=ours.kind, status=ours.status)
        return ours

    def _useless(self, exc: Exception) -> UselessAnswerError:
        return UselessAnswerError(
            f"Gemini's response is not a vector of {self._dimensions} numbers ({type(exc).__name__}); "
            f"check EMBEDDING_DIMENSIONS and {self._client.address_setting} if this persists"
        )
