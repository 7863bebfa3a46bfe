"""OpenAI and those who speak like it: ``chat/completions``, ``embeddings`` and the list of models.

https://platform.openai.com/docs/api-reference, /docs/guides/structured-outputs, /docs/guides/reasoning, /docs/pricing and
/docs/guides/error-codes, looked up 2026-11-23.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import orjson

from tests.conformance.documented import OPENAI_CHAT, OPENAI_EMBEDDINGS, Document, Fault
from tests.conformance.server import ConformanceServer, Refusal, bearer_of, body_fault, example_of, path_of
from tests.infra.fakes import openai as wire
from tests.infra.fakes.embeddings import openai_vectors
from tests.infra.fakes.openai import error
from tests.infra.fakes.server import Received, Say

REASONING = {"gpt-5-mini": ("0.25", "0.025", "2")}
"""Models that think: they refuse max_tokens and temperature. USD per million tokens: input, cached input, output."""
PLAIN = {"gpt-4.1-mini": ("0.40", "0.10", "1.60")}
EMBEDDERS = {"text-embedding-3-small": ("0.02", 1536)}
"""USD per million tokens, and the numbers of a vector."""
EFFORT_TOKENS = {"minimal": 0, "low": 256, "medium": 1_024, "high": 4_096}
_PER_MTOK = Decimal(1_000_000)
_PATHS: dict[str, Document] = {"/v1/chat/completions": OPENAI_CHAT, "/v1/embeddings": OPENAI_EMBEDDINGS}


class OpenAIServer(ConformanceServer):
    """The API for one key."""

    key = "sk-secret"

    def refusal(self, request: Received) -> Refusal | None:
        path = path_of(request)
        given = bearer_of(request)
        if given is None:
            said = "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth"
            return Refusal("no bearer token", error(401, said))
        if given != self.key:
            said = "Incorrect API key provided: sk-****. You can find your API key at https://platform.openai.com/account/api-keys."
            return Refusal("another key", error(401, said, code="invalid_api_key"))
        if path == "/v1/models" or path.startswith("/v1/models/"):
            return None if request.method == "GET" else _not_found(request)
        if path not in _PATHS or request.method != "POST":
            return _not_found(request)
        body, fault = body_fault(request, _PATHS[path])
        if fault is not None:
            return _refused(fault)
        return _chat_refusal(body) if path == "/v1/chat/completions" else _embedding_refusal(body)

    def answer(self, request: Received) -> Say:
        if request.method == "GET":
            names = [*REASONING, *PLAIN, *EMBEDDERS]
            return wire.listed({n: {"created": 1_760_000_000, "owned_by": "system"} for n in names})
        body = orjson.loads(request.body)
        return self.vectors(request) if "input" in body else self.completion(request, _message(body))

    def error(self, status: int, said: str = "said the fake", headers: dict[str, str] | None = None) -> Say:
        kinds = {429: "requests", 500: "server_error", 503: "server_error", 504: "server_error"}
        return error(status, said, headers=headers, type=kinds.get(status, "invalid_request_error"))

    def completion(self, request: Received, message: dict[str, Any], *, finish: str = "", **more: Any) -> Say:
        """Return a completion with one choice, cut where reasoning and answer exceed the limit. It is charged.

        ``more`` replaces fields of the response; None leaves one out.
        """
        body = orjson.loads(request.body)
        usage, cut = _usage(body, message)
        if cut is not None:
            message, finish = {"content": cut}, "length"
        finish = finish or ("tool_calls" if message.get("tool_calls") else "stop")
        self._charge(request, body["model"], usage)
        return wire.completion(
            message,
            finish=finish,
            **{"id": f"chatcmpl-{len(self.bills)}", "model": body["model"], "usage": usage, **more},
        )

    def vectors(self, request: Received) -> Say:
        """Return a vector for the text."""
        body = orjson.loads(request.body)
        price, size = EMBEDDERS[body["model"]]
        made = [1.0, 1.0 / (1 + len(body["input"])), *([0.0] * (body.get("dimensions", size) - 2))]
        tokens = _tokens(body["input"])
        self.charge(Decimal(price) * tokens / _PER_MTOK, request, prompt=tokens)
        return openai_vectors(made, tokens=tokens, model=body["model"])

    def _charge(self, request: Received, model: str, usage: dict[str, Any]) -> None:
        price = {**REASONING, **PLAIN}[model]
        prompt, cached = usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]
        counts = (prompt - cached, cached, usage["completion_tokens"])
        total = sum((count * Decimal(usd) for count, usd in zip(counts, price, strict=True)), Decimal(0)) / _PER_MTOK
        self.charge(total, request, prompt=prompt, cached=cached, written=usage["completion_tokens"])


def _not_found(request: Received) -> Refusal:
    said = f"Invalid URL ({request.method} {path_of(request)})"
    return Refusal(said, error(404, said))


def _refused(fault: Fault) -> Refusal:
    if fault.rule == "unknown":
        said, code = f"Unknown parameter: '{fault.field}'.", "unknown_parameter"
    elif fault.rule == "missing":
        said, code = f"Missing required parameter: '{fault.field}'.", "missing_required_parameter"
    elif fault.rule == "type":
        said, code = f"Invalid type for '{fault.field}': {fault.said}.", "invalid_type"
    else:
        said, code = f"Invalid value: {fault.got!r} at '{fault.field}'.", "invalid_value"
    return Refusal(f"{fault.field}: {fault.said}", error(400, said, param=fault.field, code=code))


def _chat_refusal(body: dict[str, Any]) -> Refusal | None:
    model = body["model"]
    if model not in REASONING and model not in PLAIN:
        said = f"The model `{model}` does not exist or you do not have access to it."
        return Refusal(said, error(404, said, code="model_not_found"))
    if model in REASONING and "max_tokens" in body:
        said = (
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
        )
        return Refusal(said, error(400, said, param="max_tokens", code="unsupported_parameter"))
    if model in REASONING and body.get("temperature", 1) != 1:
        said = (
            f"Unsupported value: 'temperature' does not support {body['temperature']} with this model. "
            "Only the default (1) value is supported."
        )
        return Refusal(said, error(400, said, param="temperature", code="unsupported_value"))
    if model in PLAIN and "reasoning_effort" in body:
        said = "Unrecognized request argument supplied: reasoning_effort"
        return Refusal(said, error(400, said))
    if "max_tokens" in body and "max_completion_tokens" in body:
        said = "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported."
        return Refusal(said, error(400, said, code="invalid_parameter_combination"))
    return _format_refusal(body) or _tool_refusal(body)


def _format_refusal(body: dict[str, Any]) -> Refusal | None:
    wanted = body.get("response_format", {})
    if wanted.get("type") == "json_object" and "json" not in orjson.dumps(body["messages"]).decode().lower():
        said = "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'."
        return Refusal(said, error(400, said, param="messages"))
    named = wanted.get("json_schema", {})
    fault = not_strict(named.get("schema", {})) if named.get("strict") else None
    if fault is None:
        return None
    said = f"Invalid schema for response_format '{named['name']}': {fault}"
    return Refusal(said, error(400, said, param="response_format", code="invalid_json_schema"))


def _tool_refusal(body: dict[str, Any]) -> Refusal | None:
    functions = [tool["function"] for tool in body.get("tools", [])]
    choice = body.get("tool_choice")
    if choice is not None and not functions:
        said = "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified."
        return Refusal(said, error(400, said, param="tool_choice"))
    if isinstance(choice, dict) and choice["function"]["name"] not in {f["name"] for f in functions}:
        said = f"Tool choice 'function' not found in 'tools' parameter: {choice['function']['name']}."
        return Refusal(said, error(400, said, param="tool_choice"))
    for function in functions:
        if function.get("strict") and (fault := not_strict(function.get("parameters", {}))) is not None:
            said = f"Invalid schema for function '{function['name']}': {fault}"
            return Refusal(said, error(400, said, param="tools", code="invalid_function_parameters"))
    return None


def not_strict(schema: Any, place: str = "") -> str | None:
    """Return why a schema cannot be strict: every object is closed and requires all that it has; None when it can."""
    if isinstance(schema, list):
        return next((why for one in schema if (why := not_strict(one, place))), None)
    if not isinstance(schema, dict):
        return None
    if schema.get("type") == "object" or "properties" in schema:
        if schema.get("additionalProperties") is not False:
            return f"In context=({place}), 'additionalProperties' is required to be supplied and to be false."
        missing = set(schema.get("properties", {})) - set(schema.get("required", []))
        if missing:
            return f"In context=({place}), 'required' is required to include every key. Missing '{sorted(missing)[0]}'."
    inner = {**schema.get("properties", {}), **{k: schema[k] for k in ("items", "anyOf", "$defs") if k in schema}}
    return next((why for name, one in inner.items() if (why := not_strict(one, f"{place}'{name}'"))), None)


def _embedding_refusal(body: dict[str, Any]) -> Refusal | None:
    if body["model"] not in EMBEDDERS:
        said = f"The model `{body['model']}` does not exist or you do not have access to it."
        return Refusal(said, error(404, said, code="model_not_found"))
    most = EMBEDDERS[body["model"]][1]
    if body.get("dimensions", most) > most:
        said = f"Invalid value for 'dimensions' = {body['dimensions']}. Must be less than or equal to {most}."
        return Refusal(said, error(400, said, param="dimensions"))
    return None


def _message(body: dict[str, Any]) -> dict[str, Any]:
    choice, tools = body.get("tool_choice"), body.get("tools", [])
    if choice == "required" or isinstance(choice, dict):
        name = tools[0]["function"]["name"] if isinstance(choice, str) else choice["function"]["name"]
        chosen = next(t["function"] for t in tools if t["function"]["name"] == name)
        return wire.calling(name, orjson.dumps(example_of(chosen.get("parameters", {}))).decode())
    wanted = body.get("response_format", {})
    if wanted.get("type") == "json_schema":
        return {"content": orjson.dumps(example_of(wanted["json_schema"].get("schema", {}))).decode()}
    return {"content": "{}" if wanted.get("type") == "json_object" else "The reserves are whole, said the company."}


def _usage(body: dict[str, Any], message: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
    """Return the usage, and the text as far as it came where it was cut."""
    limit = body.get("max_completion_tokens", body.get("max_tokens", 128_000))
    thinks = EFFORT_TOKENS.get(body.get("reasoning_effort", "medium"), 0) if body["model"] in REASONING else 0
    thinks = min(thinks, limit)
    wanted = _tokens(message)
    cut = None
    if wanted > limit - thinks:
        wanted = limit - thinks
        cut = (message.get("content") or "")[: 4 * wanted]
    prompt = _tokens({name: body[name] for name in ("messages", "tools") if name in body})
    return {
        "prompt_tokens": prompt,
        "completion_tokens": wanted + thinks,
        "total_tokens": prompt + wanted + thinks,
        "prompt_tokens_details": {"cached_tokens": prompt // 8, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": thinks, "audio_tokens": 0},
    }, cut


def _tokens(value: Any) -> int:
    return -(-len(orjson.dumps(value)) // 4)
