"""The documented requests of each provider as JSON Schemas, with the fields that our adapters send.

A field, a type or a value that is not here is refused. An adapter that sends another field needs it here, from its
documentation. ``Document.source`` is the page that a schema was taken from, ``looked_up`` the day.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

Schema = dict[str, Any]
TEXT: Schema = {"type": "string"}
WORDS: Schema = {"type": "string", "minLength": 1}
FLAG: Schema = {"type": "boolean"}
OBJECT: Schema = {"type": "object"}


def closed(required: str = "", **fields: Schema) -> Schema:
    """Return an object that has these fields and no other; ``required`` names some of them, with spaces between."""
    return {"type": "object", "properties": fields, "additionalProperties": False, "required": required.split()}


def many(items: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": items, **more}


def one_of(*values: Any) -> Schema:
    return {"enum": list(values)}


def within(least: float, most: float, kind: str = "integer") -> Schema:
    return {"type": kind, "minimum": least, "maximum": most}


@dataclass(frozen=True)
class Fault:
    """The first fault of a request. ``field`` is its place with dots between, empty for the whole; ``rule`` what it breaks.

    ``rule``: ``unknown``, ``missing``, ``type`` or ``value``. ``said`` is the validator's message.
    """

    field: str
    rule: str
    said: str
    got: Any = None

    @property
    def name(self) -> str:
        return self.field.rpartition(".")[2]


@dataclass(frozen=True)
class Document:
    """The documentation of one request."""

    source: str
    looked_up: str
    schema: Schema

    @cached_property
    def _validator(self) -> Draft202012Validator:
        Draft202012Validator.check_schema(self.schema)
        return Draft202012Validator(self.schema)

    def fault(self, request: Any) -> Fault | None:
        """Return the first fault; unknown fields go first, as services name them first."""
        found = sorted(self._validator.iter_errors(request), key=lambda e: e.validator != "additionalProperties")
        return _fault(found[0]) if found else None


def _fault(error: ValidationError) -> Fault:
    place = [str(step) for step in error.absolute_path]
    if error.validator == "additionalProperties":
        known = error.schema["properties"]
        name = next(n for n in error.instance if n not in known)
        return Fault(".".join([*place, name]), "unknown", error.message, error.instance[name])
    if error.validator == "required":
        name = next(n for n in error.validator_value if n not in error.instance)
        return Fault(".".join([*place, name]), "missing", error.message)
    rule = "type" if error.validator == "type" else "value"
    return Fault(".".join(place), rule, error.message, error.instance)


def query_fault(document: Document, query: Mapping[str, list[str]]) -> Fault | None:
    """Return the first fault of a query string; a name that stands there twice is one."""
    twice = next((name for name, values in query.items() if len(values) > 1), None)
    if twice is not None:
        return Fault(twice, "value", f"{twice} stands there twice")
    return document.fault({name: values[0] for name, values in query.items()})


def in_camel_case(value: Any, schema: Schema) -> Any:
    """Return the value with the names of fields as Google documents them.

    Its parsers take the original names, such as ``response_json_schema``, too
    (https://protobuf.dev/programming-guides/json/, 2026-11-23); google-genai sends some of them so.
    """
    if isinstance(value, list) and "items" in schema:
        return [in_camel_case(one, schema["items"]) for one in value]
    if not isinstance(value, dict) or "properties" not in schema:
        return value
    found: dict[str, Any] = {}
    for name, one in value.items():
        known = name if name in schema["properties"] or _camel(name) not in schema["properties"] else _camel(name)
        found[known] = in_camel_case(one, schema["properties"].get(known, {}))
    return found


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(part.title() for part in others)


_CONTENT = closed("parts", role=one_of("user", "model", "function"), parts=many(closed(text=TEXT), minItems=1))
_FUNCTION = closed(
    "name description",
    name={"type": "string", "pattern": r"^[A-Za-z_][A-Za-z0-9_.:-]{0,127}$"},
    description=TEXT,
    parametersJsonSchema=OBJECT,
)
GEMINI_GENERATE = Document(
    "https://ai.google.dev/api/generate-content, by the types of google-genai 3.4.0",
    "2026-11-23",
    closed(
        "contents",
        contents=many(_CONTENT, minItems=1),
        systemInstruction=_CONTENT,
        tools=many(closed(functionDeclarations=many(_FUNCTION, minItems=1))),
        toolConfig=closed(
            functionCallingConfig=closed(
                mode=one_of("MODE_UNSPECIFIED", "AUTO", "ANY", "NONE", "VALIDATED"),
                allowedFunctionNames=many(TEXT),
            ),
        ),
        generationConfig=closed(
            responseMimeType=one_of("text/plain", "application/json", "text/x.enum"),
            responseJsonSchema=OBJECT,
            candidateCount=within(1, 8),
            maxOutputTokens=within(1, 65_536),
            temperature=within(0, 2, "number"),
            thinkingConfig=closed(
                thinkingBudget=within(-1, 2**31 - 1),
                thinkingLevel=one_of("THINKING_LEVEL_UNSPECIFIED", "MINIMAL", "LOW", "MEDIUM", "HIGH", "XHIGH"),
            ),
        ),
    ),
)
_EMBED = closed(
    "model content",
    model={"type": "string", "pattern": "^models/"},
    content=_CONTENT,
    taskType=one_of("SEMANTIC_SIMILARITY", "RETRIEVAL_QUERY", "RETRIEVAL_DOCUMENT", "FACT_VERIFICATION"),
    outputDimensionality=within(1, 3072),
)
GEMINI_EMBED_BATCH = Document(
    "https://ai.google.dev/api/embeddings#method:-models.batchembedcontents",
    "2026-11-23",
    closed("requests", requests=many(_EMBED, minItems=1, maxItems=100)),
)
GEMINI_MODELS = Document(
    "https://ai.google.dev/api/models#method:-models.list",
    "2026-11-23",
    closed(pageSize={"type": "string", "pattern": r"^\d{1,4}$"}, pageToken=TEXT, key=TEXT, alt=one_of("json")),
)

_TOOL = closed(
    "type function",
    type=one_of("function"),
    function=closed(
        "name",
        name={"type": "string", "pattern": r"^[A-Za-z0-9_-]{1,64}$"},
        description=TEXT,
        parameters=OBJECT,
        strict=FLAG,
    ),
)
_MESSAGE = closed("role content", role=one_of("developer", "system", "user", "assistant", "tool"), content=TEXT)
OPENAI_CHAT = Document(
    "https://platform.openai.com/docs/api-reference/chat/create, by its OpenAPI 2.3.0 "
    "(https://docs.rs/crate/openai-client-base/latest)",
    "2026-11-23",
    closed(
        "model messages",
        model=TEXT,
        messages=many(_MESSAGE, minItems=1),
        stream=FLAG,
        max_tokens=within(1, 2**31 - 1),
        max_completion_tokens=within(1, 2**31 - 1),
        temperature=within(0, 2, "number"),
        reasoning_effort=one_of("none", "minimal", "low", "medium", "high", "xhigh"),
        tools=many(_TOOL, minItems=1, maxItems=128),
        tool_choice={
            "anyOf": [
                one_of("none", "auto", "required"),
                closed("type function", type=one_of("function"), function=closed("name", name=TEXT)),
            ]
        },
        response_format={
            "anyOf": [
                closed("type", type=one_of("text", "json_object")),
                closed(
                    "type json_schema",
                    type=one_of("json_schema"),
                    json_schema=closed(
                        "name schema",
                        name={"type": "string", "pattern": r"^[A-Za-z0-9_-]{1,64}$"},
                        schema=OBJECT,
                        strict=FLAG,
                    ),
                ),
            ]
        },
    ),
)
OPENAI_EMBEDDINGS = Document(
    "https://platform.openai.com/docs/api-reference/embeddings/create",
    "2026-11-23",
    closed(
        "model input",
        model=TEXT,
        input=WORDS,
        encoding_format=one_of("float", "base64"),
        dimensions=within(1, 4096),
    ),
)

_DAY = {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}$"}
TAVILY_SEARCH = Document(
    "https://docs.tavily.com/documentation/api-reference/endpoint/search, "
    "https://novita.ai/docs/api-reference/model-apis-tavily-search",
    "2026-11-23",
    closed(
        "query",
        query=WORDS,
        topic=one_of("general", "news", "finance"),
        search_depth=one_of("basic", "advanced", "fast", "ultra-fast"),
        chunks_per_source=within(1, 3),
        max_results=within(0, 20),
        start_date=_DAY,
        end_date=_DAY,
        include_answer=FLAG,
        include_raw_content=FLAG,
        include_images=FLAG,
        include_domains=many(WORDS),
        include_usage=FLAG,
    ),
)
BOCHA_SEARCH = Document(
    "https://open.bochaai.com (Web Search API), as in https://uni-api.cstcloud.cn/doc/llm/websearch",
    "2026-11-23",
    closed(
        "query",
        query=WORDS,
        freshness={
            "anyOf": [
                one_of("noLimit", "oneDay", "oneWeek", "oneMonth", "oneYear"),
                {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}(\.\.\d{4}-\d{2}-\d{2})?$"},
            ]
        },
        summary=FLAG,
        include=TEXT,
        count=within(1, 50),
    ),
)
RAGFLOW_RETRIEVAL = Document(
    "https://github.com/infiniflow/ragflow/blob/main/docs/references/http_api_reference.md (Retrieve chunks)",
    "2026-11-23",
    closed(
        "question",
        question=WORDS,
        dataset_ids=many(WORDS),
        page=within(1, 10_000),
        page_size=within(1, 100),
        similarity_threshold=within(0, 1, "number"),
    ),
)
_DIGITS = {"type": "string", "pattern": r"^\d{1,5}$"}
ARXIV_QUERY = Document(
    "https://info.arxiv.org/help/api/user-manual.html",
    "2026-11-23",
    closed(
        "search_query",
        search_query=WORDS,
        start=_DIGITS,
        max_results=_DIGITS,
        sortBy=one_of("relevance", "lastUpdatedDate", "submittedDate"),
        sortOrder=one_of("ascending", "descending"),
    ),
)
_SECOND = {"type": "string", "pattern": r"^\d{14}$"}
GDELT_DOC = Document(
    "https://blog.gdeltproject.org/gdelt-doc-2-0-api-debuts/",
    "2026-11-23",
    closed(
        "query mode format",
        query=WORDS,
        mode={"type": "string", "pattern": "(?i)^artlist$"},
        format={"type": "string", "pattern": "(?i)^json$"},
        timespan={"type": "string", "pattern": r"(?i)^\d+(min|h|hours?|d|days?|w|weeks?|m|months?)?$"},
        startdatetime=_SECOND,
        enddatetime=_SECOND,
        maxrecords={"type": "string", "pattern": r"^(\d{1,2}|1\d\d|2[0-4]\d|250)$"},
        sort={"type": "string", "pattern": "(?i)^(datedesc|dateasc|tonedesc|toneasc|hybridrel)$"},
    ),
)
SEARXNG_SEARCH = Document(
    "https://docs.searxng.org/dev/search_api.html",
    "2026-11-23",
    closed(
        "q format",
        q=WORDS,
        format=one_of("json"),
        categories=TEXT,
        language=TEXT,
        pageno=_DIGITS,
        time_range=one_of("", "day", "week", "month", "year"),
        safesearch=one_of("0", "1", "2"),
    ),
)
