"""The only client of OpenAI-compatible endpoints, for chat, embeddings and lists of models."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import httpx
import orjson

from infra.http import MAX_RESPONSE_BYTES, UselessAnswerError, names
from infra.http_json import Service, ServiceClient, error_message, exchange, json_object
from infra.models.call_costs import Prices
from infra.models.listing import ListedModel
from infra.settings.endpoints import OPENAI_URL, is_local
from schemas.errors import NewsproofError, PermanentError, TransientError

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
STARTED_BY = {"ollama": "ollama serve", "llamacpp": "llama-server -m model.gguf"}
"""Provider → the command that starts its server."""
_PLAN_USED_UP = {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "insufficient_balance"}
_NO_MODEL = "model_not_found"


class OpenAICompatibleClient(ServiceClient):
    """A client with one address and at most one key."""

    def __init__(
        self,
        service: Service,
        *,
        api_key: str | None,
        base_url: str | None = None,
        provider: str = "openai",
        timeout_s: float = 30.0,
        prices: Prices | None = None,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
    ) -> None:
        """``base_url`` None = OpenAI's own address. ``prices`` None = the price list of the address's host, if known.

        Without a key, models at a local address count as free. A proxy to a paid service at such an address is not
        detected.

        Raises:
            ConfigError: the key or the address is invalid; names the settings of ``service``.
        """
        address = base_url or OPENAI_URL
        super().__init__(service, address, api_key=api_key, timeout_s=timeout_s, max_bytes=max_response_bytes)
        self.provider, self.host, self.local = provider, urlsplit(address).hostname or "", is_local(address)
        free = api_key is None and self.local
        self.prices = prices or Prices(provider=PRICE_LISTS.get(self.host, UNLISTED), free=free)

    async def post(self, path: str, body: dict[str, Any], *, timeout_s: float) -> httpx.Response:
        """Send one request; return the response with any status.

        Raises:
            TransientError, PermanentError, UselessAnswerError: as :func:`infra.http_json.exchange`. If a local server
                is not running, the text has the command that starts it.
        """
        headers = {"content-type": "application/json"}
        try:
            return await self.send("POST", path, timeout_s=timeout_s, content=orjson.dumps(body), headers=headers)
        except TransientError as exc:
            raise self._explain(exc) from exc.__cause__

    async def get(self, path: str) -> httpx.Response:
        """Send one GET request for this path below the address, without the address's version for a path with ``//``.

        Raises:
            TransientError, PermanentError, UselessAnswerError: as :meth:`post`.
        """
        root = re.sub(r"/v\d+$", "", self._base) if path.startswith("//") else self._base
        request = self._http.build_request("GET", root + path.replace("//", "/", 1))
        try:
            return await exchange(self._http, request, self.service, self.timeout_s)
        except TransientError as exc:
            raise self._explain(exc) from exc.__cause__

    def unavailable(self, response: httpx.Response, detail: str, model: str, *, named_by: str) -> PermanentError | None:
        """Return the error for an exhausted plan, an unavailable model, a wrong address or a missing key, else None.

        ``detail`` is the server's own message; ``named_by`` is the setting that names the model.
        """
        status, service = response.status_code, self.service
        code = error_message(response, "error", "code")
        if status == 402 or code in _PLAN_USED_UP:
            text = f"the plan behind {service.key_setting} is used up ({status}: {detail}); pay, or name another model"
            return PermanentError(text, kind="plan_limit", status=status)
        if status in {403, 404} and (
            code == _NO_MODEL or names(detail, model) or (status == 404 and "model" in detail.lower())
        ):
            return PermanentError(self._no_model(status, detail, model, named_by), kind="not_open", status=status)
        if status == 404:
            text = (
                f"{service.name} has nothing at {self._base} ({detail}); correct {service.address_setting}, up to and with its "
                f"version (https://host/v1), or {named_by}"
            )
            return PermanentError(text, kind="invalid_request", status=status)
        if status == 401 and not service.key_setting:
            text = f"{service.name} asks for a key ({detail}); name its address in OPENAI_GATEWAYS and the key in OPENAI_KEY_NAME"
            return PermanentError(text, kind="auth", status=status)
        return None

    def _no_model(self, status: int, detail: str, model: str, named_by: str) -> str:
        if self.provider == "ollama":
            return f"Ollama has no {model!r} ({detail}); fetch it: ollama pull {model}, or correct {named_by}"
        if self.local:
            return f"{self.service.name} has no {model!r} ({detail}); load it there, or correct {named_by}"
        whom = self.service.key_setting or "this key"
        return (
            f"the model {model!r} is not open to {whom} at {self.host} ({status}: {detail}); have it opened there, or correct "
            f"{named_by}: newsproof doctor --live names those on its list"
        )

    def _explain(self, exc: TransientError) -> TransientError:
        """Return the error, or one with the command that starts the server if a local one refuses the connection."""
        if not self.local or not isinstance(exc.__cause__, httpx.ConnectError):
            return exc
        command = f" ({STARTED_BY[self.provider]})" if self.provider in STARTED_BY else ""
        text = f"nothing responds at {self._base}: start it{command}, or correct {self.service.address_setting}"
        return TransientError(text, kind="network")


_CONTEXT = ("max_model_len", "context_length", "context_window", "max_context_length")
"""Fields with a model's context: of vLLM; OpenRouter and Together; Groq; Mistral."""


async def listed_models(
    client: OpenAICompatibleClient, model: str, refused: Callable[[httpx.Response, str], NewsproofError]
) -> tuple[ListedModel, ...]:
    """Return the models that ``GET /models`` lists. llama-server and Ollama report their real context elsewhere.

    Ollama lists a model that is requested as NAME as ``NAME:latest``; if that is ``model``, it is returned as NAME.

    Raises:
        TransientError, PermanentError: as :meth:`OpenAICompatibleClient.get`, or the result of ``refused`` for another
            status.
        UselessAnswerError: the response is not a list of models.
    """
    response = await client.get("/models")
    if response.status_code != 200:
        raise refused(response, error_message(response, "error", "message"))
    data = json_object(response, client.service).get("data")
    if not isinstance(data, list):
        raise UselessAnswerError(f"{client.service.name}'s response is not a list of models; {client.service.correct}")
    rows = [entry for entry in data if isinstance(entry, dict) and isinstance(entry.get("id"), str)]
    contexts = {row["id"]: _context(row) for row in rows}
    if client.provider == "llamacpp":
        contexts |= dict.fromkeys(contexts, await _of_llamacpp(client)) if len(contexts) == 1 else {}
    elif client.provider == "ollama":
        contexts |= {name: size for name, size in (await _of_ollama(client)).items() if name in contexts}
    return tuple(
        ListedModel(model if name == f"{model}:latest" else name, context) for name, context in contexts.items()
    )


def _context(row: dict[str, Any]) -> int | None:
    return next((context for field in _CONTEXT if (context := _count(row.get(field))) is not None), None)


async def _of_llamacpp(client: OpenAICompatibleClient) -> int | None:
    """Return the context of one slot. https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md, GET /props."""
    properties = await _object(client, "//props")
    settings = properties.get("default_generation_settings")
    return _count(settings.get("n_ctx")) if isinstance(settings, dict) else None


async def _of_ollama(client: OpenAICompatibleClient) -> dict[str, int | None]:
    """Return the contexts of the loaded models. Others have no known context, because Ollama sets it by free memory.

    https://docs.ollama.com/context-length, https://docs.ollama.com/api/ps
    """
    models = (await _object(client, "//api/ps")).get("models")
    rows = [entry for entry in models if isinstance(entry, dict)] if isinstance(models, list) else []
    return {str(row.get("name")): _count(row.get("context_length")) for row in rows}


async def _object(client: OpenAICompatibleClient, path: str) -> dict[str, Any]:
    """Return the JSON object in the response; empty if the server has no such address."""
    response = await client.get(path)
    return json_object(response, client.service) if response.status_code == 200 else {}


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
