"""Chat with any endpoint that has OpenAI's ``POST /chat/completions``: OpenAI, DeepSeek, Qwen, vLLM, Ollama, gateways.

Servers differ in the features that they accept (a JSON schema, a forced function, the name of the token limit). If a
server rejects a feature by name with status 400 or 422, the adapter leaves it out, and requests a schema or a forced
function in words instead. Such a rejection costs nothing, because nothing was computed. So the same attempt continues,
and the adapter remembers the rejection. Apart from that, one ``CallModel`` is one request.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Container
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Literal

import httpx
import msgspec
import orjson
import structlog

from infra.http import UselessAnswerError
from infra.http_json import Service, error_message, json_object, refused
from infra.models import untrusted
from infra.models.call_costs import most_input_tokens
from infra.models.listing import ListedModel
from infra.models.openai_asking import as_asked, as_wanted, strictly
from infra.models.openai_client import OpenAICompatibleClient, listed_models
from infra.models.openai_reply import read_reply
from infra.models.openai_thinking import effort_of
from infra.ports import Answer
from infra.settings.endpoints import Endpoint
from schemas.calls import ProviderMode
from schemas.effects import MOST_OUTPUT_TOKENS, CallModel, Untrusted
from schemas.errors import NewsproofError, PermanentError

SCRIPTED_HEADER = "x-newsproof-scripted"
"""Header of all responses from the scripted model server (``newsproof model-server``); live calls must reject them."""
SERVICE = Service(
    name="The OpenAI-compatible model",
    address_setting="OPENAI_BASE_URL",
    key_setting="OPENAI_API_KEY",
    correct="correct the prompt, the schema or the model's settings",
)
_NAMES = {"openai": SERVICE.name, "ollama": "Ollama", "llamacpp": "llama-server"}
log = structlog.get_logger(__name__)

_TOO_LONG = {"context_length_exceeded", "string_above_max_length", "exceed_context_size_error"}


def service_of(endpoint: Endpoint) -> Service:
    """Return the endpoint's name and settings for error messages."""
    return Service(
        name=_NAMES.get(endpoint.provider, f"The gateway {endpoint.provider}"),
        address_setting=endpoint.address_setting,
        key_setting=endpoint.key_setting,
        correct=SERVICE.correct,
    )


_UNKNOWN = re.compile(
    r"unsupported|not supported|unknown|unrecogni[sz]ed|unexpected|extra|not permitted", re.IGNORECASE
)
"""Words by which servers say that they do not know a field, rather than that its value is wrong."""


class Dialect(msgspec.Struct):
    """The features that the server is assumed to accept: all at first, then without those that it rejected.

    ``forcing``: force a function by its ``name``, or as the only one with a ``required`` call, or as a ``plan``: the
    response is its arguments by JSON schema, without tools.
    """

    limit: str = "max_tokens"
    other_limit: str = "max_completion_tokens"
    structure: Literal["json_schema", "json_object", ""] = "json_schema"
    forcing: Literal["name", "required", "plan"] = "name"
    tools: bool = True
    strict: bool = True
    effort: bool = True
    temperature: bool = True

    def without(self, message: str, sent: Container[str]) -> bool:
        """Drop the feature that a rejection names; False if there is none. ``sent``: the rejected body's fields."""
        structured = "response_format" in sent and re.search(
            r"response_format|json.(schema|object)|grammar", message, re.I
        )
        schemas = "response_format" in sent or "tools" in sent
        if self.other_limit and self.limit in message and (self.other_limit in message or _UNKNOWN.search(message)):
            self.limit, self.other_limit = self.other_limit, ""  # never dropped: the budget's reservation relies on it
        elif "temperature" in message and self.temperature:
            self.temperature = False
        elif schemas and self.strict and re.search(r"\bstrict\b|[Ii]nvalid schema for", message):
            self.strict = False
        elif structured and self.structure:
            self.structure = "json_object" if self.structure == "json_schema" else ""
        elif "tools" in sent and "tool_choice" in message and self.forcing != "plan":
            self.forcing = "required" if self.forcing == "name" else "plan"
        elif "tools" in sent and re.search(r"\btools?\b|function.call", message):
            self.tools, self.forcing = False, "plan"
        elif "reasoning_effort" in sent and re.search(r"reasoning|thinking", message):
            self.effort = False
        else:
            return False
        return True


DIALECTS = {"ollama": Dialect(forcing="plan")}
"""Ollama ignores ``tool_choice`` (https://docs.ollama.com/api/openai-compatibility), so no rejection shows it."""
LOCAL = Dialect(forcing="required")
"""llama.cpp reads an object in ``tool_choice`` as "auto" (oaicompat_chat_params_parse in its
tools/server/server-common.cpp), and LM Studio rejects one (lmstudio-ai/lmstudio-bug-tracker issue 670)."""


class OpenAICompatibleModel:
    """Port for ``CallModel``: one model, one connection pool. Safe for concurrent calls in one event loop."""

    mode: ProviderMode = "live"

    def __init__(self, client: OpenAICompatibleClient, *, model: str, dialect: Dialect | None = None) -> None:
        """``dialect``: the features that the server is known to accept; None = all, until it rejects one."""
        self.model, self.provider = model, client.provider
        self._client, self._prices = client, client.prices
        self._dialect = msgspec.structs.replace(dialect or Dialect())
        if client.host == "api.openai.com":
            self._dialect = Dialect(limit="max_completion_tokens", other_limit="max_tokens")

    async def perform(self, effect: CallModel) -> Answer:
        """Call the model once. An unusable response becomes a ``Failure`` reply, with its cost if known.

        Raises:
            TransientError: rate_limit, unavailable, timeout, network.
            PermanentError: auth, plan_limit, not_open, invalid_request, too_large (the request), not_configured.
        """
        asked_at = datetime.now(UTC)
        try:
            body, asked = await self._ask(effect)
            answer = read_reply(body, asked, model=self.model, prices=self._prices, asked_at=asked_at)
            return msgspec.structs.replace(answer, reply=as_wanted(answer.reply, effect))
        except UselessAnswerError as exc:
            return exc.answer

    async def listed_models(self) -> tuple[ListedModel, ...]:
        """Return the models that the server lists for this key.

        Raises:
            TransientError, PermanentError: as :meth:`perform`.
            UselessAnswerError: the response is not a list of models.
        """
        return await listed_models(self._client, self.model, self._failure)

    def worst_case_usd(self, effect: CallModel) -> Decimal | None:
        """Return the maximum price: for the maximum number of prompt tokens and all output tokens; None = unknown.

        It allows for schemas in strict form, and for thinking.
        """
        longest = max(most_input_tokens(effect), most_input_tokens(strictly(effect)))
        return self._prices.worst_case_usd(self.model, longest, self._limit(effect))

    def quota_units(self, effect: CallModel) -> int:
        """Return 0: a model call is not a tool call."""
        return 0

    async def close(self) -> None:
        await self._client.close()

    async def _ask(self, effect: CallModel) -> tuple[dict[str, Any], CallModel]:
        """Return the response, and the effect in the form in which it was sent."""
        mark = untrusted.new_mark()
        deadline = asyncio.get_running_loop().time() + self._client.timeout_s
        while True:
            spoken = msgspec.structs.replace(self._dialect)
            asked = as_asked(effect, forcing=spoken.forcing, strict=spoken.strict)
            body = self._body(asked, mark, spoken)
            left_s = max(deadline - asyncio.get_running_loop().time(), 0.001)
            response = await self._client.post("/chat/completions", body, timeout_s=left_s)
            if SCRIPTED_HEADER in response.headers and self.mode == "live":
                raise PermanentError(
                    f"{self._client.service.address_setting} is the scripted model server, whose responses come from no model: set "
                    "NEWSPROOF_MODE=simulated and SCRIPTED_MODEL_URL to try things out with it, or name a real endpoint",
                    kind="not_configured",
                )
            if response.status_code == 200:
                return json_object(response, self._client.service), asked
            message = error_message(response, "error", "message")
            named = f"{error_message(response, 'error', 'param')} {message}"
            if _names_features(response.status_code, message) and (
                self._dialect != spoken or self._dialect.without(named, body)
            ):
                log.warning(
                    "the server does not support a feature; retrying without it", model=self.model, said=message
                )
                continue  # perhaps because a concurrent call has dropped the feature in the meantime
            raise self._failure(response, message)

    def _body(self, effect: CallModel, mark: str, dialect: Dialect) -> dict[str, Any]:
        body = _body(effect, self.model, mark, dialect) | {dialect.limit: self._limit(effect)}
        effort, _ = effort_of(self.model, effect.thinking, local=self._client.local)
        return body | {"reasoning_effort": effort} if effort and dialect.effort else body

    def _limit(self, effect: CallModel) -> int:
        """Return the token limit for answer and thinking, which servers count together; at most 65,536."""
        room = effort_of(self.model, effect.thinking, local=self._client.local)[1]
        return min(effect.max_output_tokens + room, MOST_OUTPUT_TOKENS)

    def _failure(self, response: httpx.Response, message: str) -> NewsproofError:
        status = response.status_code
        if (ended := self._client.unavailable(response, message, self.model, named_by="the model's name")) is not None:
            return ended
        kinds = {error_message(response, "error", "code"), error_message(response, "error", "type")}
        if status == 413 or kinds & _TOO_LONG or (status == 400 and "context length" in message):
            text = f"the request is too large for {self.model} ({message}); send less text"
            return PermanentError(text, kind="too_large", status=status)
        return refused(self._client.service, status, message, response.headers)


def _names_features(status: int, message: str) -> bool:
    """Return whether a rejection may name a feature. OpenRouter uses status 404, llama-server without --jinja 500."""
    return status in {400, 422} or "No endpoints found that support" in message or "requires --jinja" in message


def _body(effect: CallModel, model: str, mark: str, dialect: Dialect) -> dict[str, Any]:
    system = [effect.system]
    if any(isinstance(part, Untrusted) for part in effect.parts):
        system.append(untrusted.explain(mark))
    body: dict[str, Any] = {"model": model, "stream": False}
    if dialect.temperature:
        body["temperature"] = effect.temperature
    if effect.functions and dialect.tools:
        body |= _functions(effect, dialect)
    elif effect.functions:
        system.append("No function can be called here: answer from what is given.")
    if effect.response_schema is not None:
        body |= _structure(effect, dialect)
        if dialect.structure != "json_schema":
            schema = orjson.dumps(effect.response_schema).decode()
            system.append(f"Answer with one JSON object and nothing else, by this JSON Schema: {schema}")
    messages = [{"role": "system", "content": "\n\n".join(t for t in system if t)}]
    user_message = {"role": "user", "content": "\n\n".join(untrusted.render(effect.parts, mark))}
    return {**body, "messages": [*(m for m in messages if m["content"]), user_message]}


def _functions(effect: CallModel, dialect: Dialect) -> dict[str, Any]:
    forced, named = effect.forced_function, dialect.forcing == "name"
    tools = [
        {
            "type": "function",
            "function": {"name": f.name, "description": f.description, "parameters": f.parameters}
            | _strictness(f.parameters, dialect),
        }
        for f in effect.functions
        if forced in {None, f.name} or named
    ]
    if forced is None:
        return {"tools": tools}
    return {"tools": tools, "tool_choice": {"type": "function", "function": {"name": forced}} if named else "required"}


def _structure(effect: CallModel, dialect: Dialect) -> dict[str, Any]:
    schema = effect.response_schema
    if dialect.structure == "json_schema" and schema is not None:
        named = {"name": effect.task[:64], "schema": schema} | _strictness(schema, dialect)
        return {"response_format": {"type": "json_schema", "json_schema": named}}
    return {"response_format": {"type": "json_object"}} if dialect.structure else {}


def _strictness(schema: dict[str, Any], dialect: Dialect) -> dict[str, bool]:
    return {"strict": schema.get("additionalProperties") is False} if dialect.strict else {}
