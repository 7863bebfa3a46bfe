"""The models that an OpenAI-compatible server lists, and how many tokens a request to each may have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx

from infra.http import UselessAnswerError
from infra.http_json import error_message, json_object
from infra.models.listing import ListedModel
from infra.models.openai_client import OpenAICompatibleClient
from schemas.errors import NewsproofError

_CONTEXT = ("max_model_len", "context_length", "context_window", "max_context_length")
"""vLLM; OpenRouter and Together; Groq; Mistral."""


async def listed_models(
    client: OpenAICompatibleClient, model: str, refused: Callable[[httpx.Response, str], NewsproofError]
) -> tuple[ListedModel, ...]:
    """Return what ``GET /models`` lists. llama-server and Ollama tell elsewhere what context they really run with.

    Ollama lists ``NAME:latest`` for what is asked for as NAME: such a name of ``model`` is listed as asked for.

    Raises:
        TransientError, PermanentError: as :meth:`OpenAICompatibleClient.get`, or what ``refused`` makes of another status.
        UselessAnswerError: the answer is no list of models.
    """
    response = await client.get("/models")
    if response.status_code != 200:
        raise refused(response, error_message(response, "error", "message"))
    data = json_object(response, client.service).get("data")
    if not isinstance(data, list):
        raise UselessAnswerError(f"{client.service.name} answers with no list of models; {client.service.correct}")
    rows = [one for one in data if isinstance(one, dict) and isinstance(one.get("id"), str)]
    contexts = {row["id"]: _context(row) for row in rows}
    if client.provider == "llamacpp":
        contexts |= dict.fromkeys(contexts, await _of_llamacpp(client)) if len(contexts) == 1 else {}
    elif client.provider == "ollama":
        contexts |= {name: found for name, found in (await _of_ollama(client)).items() if name in contexts}
    return tuple(
        ListedModel(model if name == f"{model}:latest" else name, context) for name, context in contexts.items()
    )


def _context(row: dict[str, Any]) -> int | None:
    return next((found for field in _CONTEXT if (found := _count(row.get(field))) is not None), None)


async def _of_llamacpp(client: OpenAICompatibleClient) -> int | None:
    """Return the context of one slot. https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md, GET /props."""
    said = await _object(client, "//props")
    settings = said.get("default_generation_settings")
    return _count(settings.get("n_ctx")) if isinstance(settings, dict) else None


async def _of_ollama(client: OpenAICompatibleClient) -> dict[str, int | None]:
    """Return the contexts of the models that are loaded, the only ones that are known: Ollama sets them by free memory.

    https://docs.ollama.com/context-length, https://docs.ollama.com/api/ps
    """
    models = (await _object(client, "//api/ps")).get("models")
    rows = [one for one in models if isinstance(one, dict)] if isinstance(models, list) else []
    return {str(row.get("name")): _count(row.get("context_length")) for row in rows}


async def _object(client: OpenAICompatibleClient, path: str) -> dict[str, Any]:
    """Return the answer; empty where the server has no such address."""
    response = await client.get(path)
    return json_object(response, client.service) if response.status_code == 200 else {}


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
