"""Gemini: ``generateContent``, embeddings and the list of models, with thinking that counts inside ``maxOutputTokens``.

Thinking: https://ai.google.dev/gemini-api/docs/thinking and https://firebase.google.com/docs/ai-logic/thinking. Prices:
https://ai.google.dev/gemini-api/docs/pricing. Errors: https://ai.google.dev/gemini-api/docs/troubleshooting, words of
refusals: https://github.com/googleapis/js-genai/issues/1609 and the reports named beside them. All looked up 2026-11-23.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import orjson

from tests.conformance.documented import (
    GEMINI_EMBED_BATCH,
    GEMINI_GENERATE,
    GEMINI_MODELS,
    Document,
    Fault,
    in_camel_case,
    query_fault,
)
from tests.conformance.server import ConformanceServer, Refusal, example_of, path_of, posted_json, query_of
from tests.infra.fakes import gemini as wire
from tests.infra.fakes.embeddings import gemini_vectors
from tests.infra.fakes.gemini import WRONG_KEY, detail, error, invalid
from tests.infra.fakes.server import Received, Say

_PATH = re.compile(r"^/(?:v1|v1beta)/models(?:/(?P<model>[\w.-]+)(?::(?P<method>\w+))?)?$")
_METHODS: dict[str, Document] = {
    "generateContent": GEMINI_GENERATE,
    "batchEmbedContents": GEMINI_EMBED_BATCH,
}
THOUGHT_TOKENS = {"MINIMAL": 40, "LOW": 300, "MEDIUM": 1_200, "HIGH": 6_000}
"""What a level thinks here. The real figures differ by question; that they are counted is what matters."""
OUTPUT_LIMIT = 65_536


@dataclass(frozen=True)
class Model:
    """USD per million tokens, and how the model thinks: by ``levels`` (3.x) or by a ``budget`` from … to (2.5).

    ``default``: what it does untold, a level or a budget (-1: as much as it likes). ``open`` False: closed to new keys.
    """

    input_usd: str
    cached_usd: str
    output_usd: str
    levels: tuple[str, ...] = ()
    budget: tuple[int, int] = (0, 0)
    may_be_off: bool = False
    default: str | int = 0
    open: bool = True


MODELS = {
    "gemini-3.8-flash": Model("0.75", "0.075", "3.75", levels=("LOW", "MEDIUM", "HIGH"), default="MEDIUM"),
    "gemini-3.5-flash-lite": Model("0.30", "0.03", "2.50", levels=tuple(THOUGHT_TOKENS), default="MINIMAL"),
    "gemini-2.5-flash-lite": Model("0.10", "0.01", "0.40", budget=(512, 24_576), may_be_off=True),
    "gemini-2.5-flash": Model("0.30", "0.03", "2.50", budget=(1, 24_576), may_be_off=True, default=-1, open=False),
    "gemini-2.5-pro": Model("1.25", "0.125", "10", budget=(128, 32_768), default=-1),
}
EMBEDDERS = {"gemini-embedding-2": "0.20", "gemini-embedding-001": "0.15"}
"""USD per million tokens of text."""
PAGE = 4
"""Models in a page of the list at most, so that it has two."""
_STATUS = {
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_PER_MTOK = Decimal(1_000_000)
NO_KEY = error(
    403,
    "PERMISSION_DENIED",
    "Method doesn't allow unregistered callers (callers without established identity). "
    "Please use API Key or other form of API consumer identity to call this API.",
)


class GeminiServer(ConformanceServer):
    """The Gemini API for one key."""

    key = "AIza-secret"

    def refusal(self, request: Received) -> Refusal | None:
        place = _PATH.match(path_of(request))
        if place is None:
            return Refusal(f"no method at {request.path}", Say(b"<!DOCTYPE html><title>404</title>", status=404))
        if (refused := self._key_refusal(request)) is not None:
            return refused
        if place["method"] is None:
            fault = query_fault(GEMINI_MODELS, query_of(request))
            return _refused(fault) if fault else None
        document = _METHODS.get(place["method"])
        if document is None or request.method != "POST" or _lists_not(place["model"], place["method"]):
            said = (
                f"models/{place['model']} is not found for API version v1, or is not supported for {place['method']}."
            )
            return Refusal(
                said, error(404, "NOT_FOUND", f"{said} Call ListModels to see the list of available models.")
            )
        body, unreadable = posted_json(request)
        fault = Fault("", "type", unreadable) if unreadable else document.fault(in_camel_case(body, document.schema))
        if fault is not None:
            return _refused(fault)
        body = in_camel_case(body, document.schema)
        return (
            _refused_generation(MODELS[place["model"]], place["model"], body) if document is GEMINI_GENERATE else None
        )

    def _key_refusal(self, request: Received) -> Refusal | None:
        given = request.headers.get("x-goog-api-key") or "".join(query_of(request).get("key", []))
        if not given:
            return Refusal("the header x-goog-api-key is missing", NO_KEY)
        return None if given == self.key else Refusal("another key", WRONG_KEY)

    def answer(self, request: Received) -> Say:
        place = _PATH.match(path_of(request))
        assert place is not None
        if place["method"] is None:
            return _listed(place["model"], query_of(request))
        if place["method"] != "generateContent":
            return self.vectors(request)
        body = _read(request)
        return self.reply(request, *_parts(body))

    def error(self, status: int, said: str = "said the fake", headers: dict[str, str] | None = None) -> Say:
        return error(status, _STATUS.get(status, "UNKNOWN"), said, headers=headers)

    def reply(
        self, request: Received, *parts: dict[str, Any], finish: str = "STOP", thinks: int | None = None, **more: Any
    ) -> Say:
        """Return a response with one candidate of these parts, cut where thinking and answer exceed the limit.

        It is charged. ``thinks``: tokens of thought, other than the model and the request let expect. ``more`` replaces
        fields of the response; None leaves one out.
        """
        name, body, usage = self._thought(request)
        limit = body.get("generationConfig", {}).get("maxOutputTokens", OUTPUT_LIMIT)
        usage["thoughtsTokenCount"] = min(limit, usage["thoughtsTokenCount"] if thinks is None else thinks)
        room = limit - usage["thoughtsTokenCount"]
        wanted = sum(_tokens(part) for part in parts if not part.get("thought"))
        if wanted > room:
            parts, finish, wanted = _cut(parts, room), "MAX_TOKENS", room
        usage |= {"candidatesTokenCount": wanted}
        usage["totalTokenCount"] = sum(
            usage[n] for n in ("promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount")
        )
        self._charge(request, name, usage)
        said: dict[str, Any] = {
            "usageMetadata": usage,
            "modelVersion": name,
            "responseId": f"r-{len(self.bills)}",
            **more,
        }
        return wire.reply(*parts, finish=finish, **said)

    def blocked(self, request: Received, reason: str = "PROHIBITED_CONTENT") -> Say:
        """Return the response to a prompt that was blocked: it has no candidate, and its prompt is charged."""
        name, _, usage = self._thought(request)
        usage = {"promptTokenCount": usage["promptTokenCount"], "totalTokenCount": usage["promptTokenCount"]}
        self._charge(request, name, usage)
        return wire.blocked(reason, usage, modelVersion=name)

    def vectors(self, request: Received) -> Say:
        """Return a vector for each text, with a direction that depends on it."""
        place = _PATH.match(path_of(request))
        assert place is not None
        body = _read(request)
        asked = body["requests"]
        made = [_vector(one, one.get("outputDimensionality", 3072)) for one in asked]
        tokens = sum(_tokens(part) for one in asked for part in one["content"]["parts"])
        self.charge(Decimal(EMBEDDERS[place["model"]]) * tokens / _PER_MTOK, request, prompt=tokens)
        return gemini_vectors(*made, tokens=tokens)

    def _thought(self, request: Received) -> tuple[str, dict[str, Any], dict[str, Any]]:
        place = _PATH.match(path_of(request))
        assert place is not None
        body = _read(request)
        config = body.get("generationConfig", {})
        thinks = _thinks(MODELS[place["model"]], config.get("thinkingConfig", {}))
        prompt = sum(_tokens(body[name]) for name in ("contents", "systemInstruction", "tools") if name in body)
        usage = {
            "promptTokenCount": prompt,
            "cachedContentTokenCount": prompt // 8,
            "thoughtsTokenCount": thinks,
        }
        return place["model"], body, usage

    def _charge(self, request: Received, name: str, usage: dict[str, int]) -> None:
        price = MODELS[name]
        prompt, cached = usage["promptTokenCount"], usage.get("cachedContentTokenCount", 0)
        written = usage.get("candidatesTokenCount", 0) + usage.get("thoughtsTokenCount", 0)
        assert prompt <= 200_000, "prompts of the higher tier are not in this price list: add it"
        usd = (prompt - cached) * Decimal(price.input_usd) + cached * Decimal(price.cached_usd)
        total = (usd + written * Decimal(price.output_usd)) / _PER_MTOK
        self.charge(total, request, prompt=prompt, cached=cached, written=written)


def _read(request: Received) -> Any:
    document = _METHODS[path_of(request).rpartition(":")[2]]
    return in_camel_case(orjson.loads(request.body), document.schema)


def _lists_not(model: str, method: str) -> bool:
    return model not in (MODELS if method == "generateContent" else EMBEDDERS)


def _refused(fault: Fault) -> Refusal:
    # "Invalid JSON payload received. Unknown name": https://github.com/nashsu/llm_wiki/issues/49
    place, _, name = fault.field.rpartition(".")
    where = re.sub(r"\.(\d+)", r"[\1]", place)
    said = f"Invalid value at '{fault.field}', {fault.got!r}"
    if fault.rule == "unknown":
        said = f'Invalid JSON payload received. Unknown name "{name}"' + (f" at '{where}': " if where else ": ")
        said += "Cannot find field."
    elif not fault.field:
        said = f"Invalid JSON payload received. {fault.said}"
    elif fault.rule == "missing":
        said = f"* GenerateContentRequest.{fault.field}: {fault.field} is not specified\n"
    violated = detail("BadRequest", fieldViolations=[{"field": where, "description": said}])
    return Refusal(f"{fault.field}: {fault.said}", invalid(said, violated))


def _refused_generation(model: Model, name: str, body: dict[str, Any]) -> Refusal | None:
    said = (
        (None if model.open else wire.closed(name))
        or _thinking_fault(model, body)
        or _structure_fault(model, body)
        or _function_fault(body)
    )
    if said is None:
        return None
    return Refusal(said, error(404, "NOT_FOUND", said) if "no longer available" in said else invalid(said))


def _thinking_fault(model: Model, body: dict[str, Any]) -> str | None:
    config = body.get("generationConfig", {})
    thinking = config.get("thinkingConfig", {})
    level, budget = thinking.get("thinkingLevel"), thinking.get("thinkingBudget")
    if level is not None and budget is not None:
        return "You can only set only one of thinking budget and thinking level."
    if level is not None and not model.levels:
        return "Thinking level is not supported for this model."
    if level is not None and level not in model.levels:
        return f"Thinking level {level} is not supported for this model. Please retry with other thinking level."
    if config.get("candidateCount", 1) > 1 and model.levels:
        return "Multiple candidates is not enabled for this model"
    if budget is None or budget == -1 or model.levels:
        return None
    if budget == 0:
        return None if model.may_be_off else "Budget 0 is invalid. This model only works in thinking mode."
    least, most = model.budget
    in_range = least <= budget <= most
    return None if in_range else (
        f"The thinking budget ({budget}) is invalid. Please choose a value between {least} and {most}."
    )  # fmt: skip


def _structure_fault(model: Model, body: dict[str, Any]) -> str | None:
    config = body.get("generationConfig", {})
    as_json = config.get("responseMimeType") == "application/json"
    if "responseJsonSchema" in config and not as_json:
        return "A compatible response_mime_type must be set with a response schema: application/json."
    if as_json and body.get("tools") and not model.levels:
        return "Function calling with a response mime type: 'application/json' is unsupported"
    return None


def _function_fault(body: dict[str, Any]) -> str | None:
    declared = [f for tool in body.get("tools", []) for f in tool.get("functionDeclarations", [])]
    calling = body.get("toolConfig", {}).get("functionCallingConfig", {})
    allowed = calling.get("allowedFunctionNames", [])
    if allowed and calling.get("mode") not in {"ANY", "VALIDATED"}:
        return "allowed_function_names should be set only when the mode is ANY or VALIDATED."
    strange = set(allowed) - {f["name"] for f in declared}
    return f"allowed_function_names has {sorted(strange)[0]!r}, which is not declared." if strange else None


def _thinks(model: Model, config: dict[str, Any]) -> int:
    budget: Any = config.get("thinkingBudget")
    if model.levels and budget is None:
        return THOUGHT_TOKENS[config.get("thinkingLevel", model.default)]
    budget = model.default if budget is None else budget
    return THOUGHT_TOKENS["MEDIUM"] if budget == -1 else min(int(budget), THOUGHT_TOKENS["MEDIUM"])


def _tokens(value: Any) -> int:
    """Return a count of tokens: a quarter of the bytes, rounded up."""
    text = value.get("text") if isinstance(value, dict) and "text" in value else None
    return -(-len(text.encode() if text is not None else orjson.dumps(value)) // 4)


def _cut(parts: tuple[dict[str, Any], ...], room: int) -> tuple[dict[str, Any], ...]:
    thoughts = tuple(part for part in parts if part.get("thought"))
    texts = "".join(part["text"] for part in parts if "text" in part and not part.get("thought"))
    kept = texts.encode()[: 4 * room].decode("utf-8", "ignore")
    return (*thoughts, {"text": kept}) if kept else thoughts


def _parts(body: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    calling = body.get("toolConfig", {}).get("functionCallingConfig", {})
    declared = [f for tool in body.get("tools", []) for f in tool.get("functionDeclarations", [])]
    config = body.get("generationConfig", {})
    if calling.get("mode") == "ANY":
        names = calling.get("allowedFunctionNames") or [declared[0]["name"]]
        chosen = next(f for f in declared if f["name"] == names[0])
        args = example_of(chosen["parametersJsonSchema"])
        return ({"functionCall": {"name": chosen["name"], "args": args}, "thoughtSignature": "dGhvdWdodA=="},)
    schema = config.get("responseJsonSchema")
    return (
        {"text": orjson.dumps(example_of(schema)).decode() if schema else "The reserves are whole, said the company."},
    )


def _vector(asked: dict[str, Any], dimensions: int) -> list[float]:
    lengths = len(orjson.dumps(asked["content"]))
    return [1.0, 1.0 / lengths, *([0.0] * (dimensions - 2))]


def _listed(one: str | None, query: dict[str, list[str]]) -> Say:
    names = [*(name for name, model in MODELS.items() if model.open), *EMBEDDERS]
    if one is not None:
        return Say(_described(one)) if one in names else error(404, "NOT_FOUND", f"models/{one} is not found.")
    size = min(int(query.get("pageSize", ["50"])[0]), PAGE)
    start = int(query.get("pageToken", ["0"])[0])
    page: dict[str, Any] = {"models": [_described(name) for name in names[start : start + size]]}
    return Say({**page, "nextPageToken": str(start + size)} if start + size < len(names) else page)


def _described(name: str) -> dict[str, Any]:
    methods = ["embedContent"] if name in EMBEDDERS else ["generateContent", "countTokens"]
    limits = {"inputTokenLimit": 1_048_576, "outputTokenLimit": OUTPUT_LIMIT}
    return {
        "name": f"models/{name}",
        "version": "001",
        "displayName": name,
        **limits,
        "supportedGenerationMethods": methods,
    }
