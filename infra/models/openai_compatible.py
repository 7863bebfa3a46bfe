"""Chat with any endpoint of OpenAI's ``POST /chat/completions``: OpenAI, DeepSeek, Qwen, vLLM, Ollama, gateways.

Servers differ in what they accept (a JSON schema, a forced function, the name of the token limit). A feature that a
server rejects by name with status 400 or 422 is left out, and a schema or a forced function is requested in words
instead. Such a rejection computes nothing and costs nothing, so the same attempt continues, and the adapter remembers
it. Apart from that, one ``CallModel`` is one request.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import httpx
import msgspec
import orjson

from infra.http import UselessAnswerError
from infra.http_json import Service, error_message, json_object, refused
from infra.models import untrusted
from infra.models.openai_client import OpenAICompatibleClient
from infra.models.openai_reply import read_reply
from infra.models.prompt_size import most_input_tokens
from infra.ports import Answer
from schemas.calls import ProviderMode
from schemas.effects import CallModel, Untrusted
from schemas.errors import NewsproofError, PermanentError

SCRIPTED_HEADER = "x-newsproof-scripted"
"""Header of every response of the scripted model server (``newsproof model-server``); a live call must reject it."""
SERVICE = Service(
    name="The OpenAI-compatible model",
    address_setting="OPENAI_BASE_URL",
    key_setting="OPENAI_API_KEY",
    correct="correct the prompt, the schema or the model's settings",
)
_TOO_LONG = {"context_length_exceeded", "string_above_max_length"}


class Dialect(msgspec.Struct):
    """The features that the server is assumed to accept: all at first, reduced by its rejections."""

    limit: str = "max_tokens"
    other_limit: str = "max_completion_tokens"
    structure: str = "json_schema"
    forcing: str = "named"
    temperature: bool = True

    def without(self, said: str) -> bool:
        """Drop the feature that the rejection names; False when it names none that can be dropped."""
        if self.limit in said and self.other_limit:
            self.limit, self.other_limit = self.other_limit, ""  # never dropped: the budget reserves by it
        elif "temperature" in said and self.temperature:
            self.temperature = False
        elif ("response_format" in said or "json_schema" in said or "json_object" in said) and self.structure:
            self.structure = "json_object" if self.structure == "json_schema" else ""
        elif "tool_choice" in said and self.forcing:
            self.forcing = "required" if self.forcing == "named" else ""
        else:
            return False
        return True


class OpenAICompatibleModel:
    """Port for ``CallModel``: one model, one connection pool. Safe for concurrent calls in one event loop."""

    provider = "openai"
    mode: ProviderMode = "live"

    def __init__(self, client: OpenAICompatibleClient, *, model: str) -> None:
        self.model = model
        self._client, self._prices = client, client.prices
        self._dialect = Dialect()
        if client.host == "api.openai.com":
            self._dialect = Dialect(limit="max_completion_tokens", other_limit="max_tokens")

    async def perform(self, effect: CallModel) -> Answer:
        """Call the model once. An unusable response becomes a ``Failure`` reply, with its cost where known.

        Raises:
            TransientError: rate_limit, unavailable, timeout, network.
            PermanentError: auth, plan_limit, invalid_request, too_large (the request), not_configured.
        """
        asked_at = datetime.now(UTC)
        try:
            body = await self._ask(effect)
            return read_reply(body, effect, model=self.model, prices=self._prices, asked_at=asked_at)
        except UselessAnswerError as exc:
            return exc.answer

    def worst_case_usd(self, effect: CallModel) -> Decimal | None:
        """Return the price of the longest possible prompt of this text and of every output token; None when unknown."""
        return self._prices.worst_case_usd(self.model, most_input_tokens(effect), effect.max_output_tokens)

    def quota_units(self, effect: CallModel) -> int:
        """Return 0: a model call is not a tool call."""
        return 0

    async def close(self) -> None:
        await self._client.close()

    async def _ask(self, effect: CallModel) -> dict[str, Any]:
        mark = untrusted.new_mark()
        deadline = asyncio.get_running_loop().time() + self._client.timeout_s
        while True:
            spoken = msgspec.structs.replace(self._dialect)
            body = _body(effect, self.model, mark, spoken)
            left_s = max(deadline - asyncio.get_running_loop().time(), 0.001)
            response = await self._client.post("/chat/completions", body, timeout_s=left_s)
            if SCRIPTED_HEADER in response.headers and self.mode == "live":
                raise PermanentError(
                    "OPENAI_BASE_URL is the scripted model server, whose answers are no model's: set "
                    "NEWSPROOF_MODE=simulated and SCRIPTED_MODEL_URL to try things out with it, or name a real endpoint",
                    kind="not_configured",
                )
            if response.status_code == 200:
                return json_object(response, self._client.service)
            said = error_message(response, "error", "message")
            named = f"{error_message(response, 'error', 'param')} {said}"
            if response.status_code in {400, 422} and (self._dialect != spoken or self._dialect.without(named)):
                continue  # a concurrent call may have learned it meanwhile
            raise self._failure(response, said)

    def _failure(self, response: httpx.Response, said: str) -> NewsproofError:
        status = response.status_code
        if (ended := self._client.unavailable(response, said, self.model, named_by="the model's name")) is not None:
            return ended
        if status == 413 or error_message(response, "error", "code") in _TOO_LONG:
            text = f"the request is too large for {self.model} ({said}); send less text"
            return PermanentError(text, kind="too_large", status=status)
        return refused(self._client.service, status, said, response.headers)


def _body(effect: CallModel, model: str, mark: str, dialect: Dialect) -> dict[str, Any]:
    system = [effect.system]
    if any(isinstance(part, Untrusted) for part in effect.parts):
        system.append(untrusted.explain(mark))
    body: dict[str, Any] = {"model": model, "stream": False, dialect.limit: effect.max_output_tokens}
    if dialect.temperature:
        body["temperature"] = effect.temperature
    if effect.functions:
        body |= _functions(effect, dialect)
        if effect.forced_function and dialect.forcing != "named":
            system.append(f"Answer by calling the function {effect.forced_function}, and in no other way.")
    if effect.response_schema is not None:
        body |= _structure(effect, dialect)
        if dialect.structure != "json_schema":
            schema = orjson.dumps(effect.response_schema).decode()
            system.append(f"Answer with one JSON object and nothing else, by this JSON Schema: {schema}")
    messages = [{"role": "system", "content": "\n\n".join(t for t in system if t)}]
    said = {"role": "user", "content": "\n\n".join(untrusted.render(effect.parts, mark))}
    return {**body, "messages": [*(m for m in messages if m["content"]), said]}


def _functions(effect: CallModel, dialect: Dialect) -> dict[str, Any]:
    tools = [
        {"type": "function", "function": {"name": f.name, "description": f.description, "parameters": f.parameters}}
        for f in effect.functions
    ]
    if effect.forced_function is None or not dialect.forcing:
        return {"tools": tools}
    if dialect.forcing == "required":
        only = [t for t in tools if t["function"]["name"] == effect.forced_function]  # type: ignore[index]
        return {"tools": only, "tool_choice": "required"}
    return {"tools": tools, "tool_choice": {"type": "function", "function": {"name": effect.forced_function}}}


def _structure(effect: CallModel, dialect: Dialect) -> dict[str, Any]:
    if dialect.structure == "json_schema":
        named = {"name": effect.task[:64], "schema": effect.response_schema}
        return {"response_format": {"type": "json_schema", "json_schema": named}}
    return {"response_format": {"type": "json_object"}} if dialect.structure else {}
