"""The only client of OpenAI-compatible endpoints, for chat and embeddings: address, key, prices and errors."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import httpx
import orjson

from infra.http import MAX_RESPONSE_BYTES
from infra.http_json import Service, ServiceClient, error_message
from infra.models.call_costs import Prices
from schemas.errors import PermanentError

DEFAULT_BASE_URL = "https://api.openai.com/v1"
PRICE_LISTS = {
    "api.openai.com": "openai",
    "api.deepseek.com": "deepseek",
    "api.groq.com": "groq",
    "api.mistral.ai": "mistral",
    "api.together.xyz": "together",
    "api.x.ai": "x-ai",
    "openrouter.ai": "openrouter",
}
"""Host → its id in ``genai-prices``. Prices of other hosts are unknown, unless a dated override names the model."""
UNLISTED = "unlisted"
_PLAN_USED_UP = {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "insufficient_balance"}


class OpenAICompatibleClient(ServiceClient):
    """One key at one address."""

    def __init__(
        self,
        service: Service,
        *,
        api_key: str,
        base_url: str | None = None,
        timeout_s: float = 30.0,
        prices: Prices | None = None,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
    ) -> None:
        """``base_url`` None = OpenAI's own address. ``prices`` None = the price list of the address' host, if known.

        Raises:
            ConfigError: the key or the address is invalid; names the settings of ``service``.
        """
        address = base_url or DEFAULT_BASE_URL
        super().__init__(service, address, api_key=api_key, timeout_s=timeout_s, max_bytes=max_response_bytes)
        self.host = urlsplit(address).hostname or ""
        self.prices = prices or Prices(provider=PRICE_LISTS.get(self.host, UNLISTED))

    async def post(self, path: str, body: dict[str, Any], *, timeout_s: float) -> httpx.Response:
        """Send one request; return the response with any status.

        Raises:
            TransientError, PermanentError, UselessAnswerError: as :func:`infra.http_json.exchange`.
        """
        headers = {"content-type": "application/json"}
        return await self.send("POST", path, timeout_s=timeout_s, content=orjson.dumps(body), headers=headers)

    def unavailable(self, response: httpx.Response, said: str, model: str, *, named_by: str) -> PermanentError | None:
        """Return the error for an exhausted plan or a missing model; None when the response is neither.

        ``said`` is the server's own message; ``named_by`` is the setting that names the model.
        """
        status, service = response.status_code, self.service
        if status == 402 or error_message(response, "error", "code") in _PLAN_USED_UP:
            text = f"the plan behind {service.key_setting} is used up ({status}: {said}); pay, or name another model"
            return PermanentError(text, kind="plan_limit", status=status)
        if status == 404:
            text = (
                f"{service.name}'s server has no {model!r} at this address ({said}); "
                f"correct {named_by} or {service.address_setting}"
            )
            return PermanentError(text, kind="invalid_request", status=status)
        return None
