"""What each provider documents of its requests, as JSON Schemas: a field, a type or a value that is not here is refused.

``Document.source`` is the page that a schema was taken from, ``looked_up`` the day.
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
NUMBER: Schema = {"type": "number"}
WHOLE: Schema = {"type": "integer"}
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


_PART = closed(
    text=TEXT,
    thought=FLAG,
    thoughtSignature=TEXT,
    inlineData=OBJECT,
    fileData=OBJECT,
    functionCall=OBJECT,
    functionResponse=OBJECT,
    executableCode=OBJECT,
    codeExecutionResult=OBJECT,
    videoMetadata=OBJECT,
    mediaResolution=OBJECT,
    partMetadata=OBJECT,
)
_CONTENT = closed("parts", role=one_of("user", "model", "function"), parts=many(_PART, minItems=1))
_FUNCTION = closed(
    "name description",
    name={"type": "string", "pattern": r"^[A-Za-z_][A-Za-z0-9_.:-]{0,127}$"},
    description=TEXT,
    parameters=OBJECT,
    parametersJsonSchema=OBJECT,
    response=OBJECT,
    responseJsonSchema=OBJECT,
    behavior=one_of("UNSPECIFIED", "BLOCKING", "NON_BLOCKING"),
)
GEMINI_GENERATE = Document(
    "https://ai.google.dev/api/generate-content, by the types of google-genai 3.4.0",
    "2026-11-23",
    closed(
        "contents",
        contents=many(_CONTENT, minItems=1),
        systemInstruction=_CONTENT,
        cachedContent=TEXT,
        store=FLAG,
        serviceTier=one_of("unspecified", "flex", "standard", "priority"),
        safetySettings=many(closed("category threshold", category=TEXT, threshold=TEXT)),
        tools=many(
            closed(
                functionDeclarations=many(_FUNCTION, minItems=1),
                googleSearch=OBJECT,
                googleSearchRetrieval=OBJECT,
                codeExecution=OBJECT,
                urlContext=OBJECT,
                googleMaps=OBJECT,
                fileSearch=OBJECT,
                computerUse=OBJECT,
            )
        ),
        toolConfig=closed(
            functionCallingConfig=closed(
                mode=one_of("MODE_UNSPECIFIED", "AUTO", "ANY", "NONE", "VALIDATED"),
                allowedFunctionNames=many(TEXT),
            ),
            retrievalConfig=OBJECT,
            includeServerSideToolInvocations=FLAG,
        ),
        generationConfig=closed(
            stopSequences=many(TEXT, maxItems=5),
            responseMimeType=one_of("text/plain", "application/json", "text/x.enum"),
            responseSchema=OBJECT,
            responseJsonSchema=OBJECT,
            responseModalities=many(one_of("TEXT", "IMAGE", "AUDIO")),
            candidateCount=within(1, 8),
            maxOutputTokens=within(1, 65_536),
            temperature=within(0, 2, "number"),
            topP=within(0, 1, "number"),
            topK=WHOLE,
            seed=WHOLE,
            presencePenalty=NUMBER,
            frequencyPenalty=NUMBER,
            responseLogprobs=FLAG,
            logprobs=within(0, 20),
            enableEnhancedCivicAnswers=FLAG,
            speechConfig=OBJECT,
            thinkingConfig=closed(
                includeThoughts=FLAG,
                thinkingBudget=within(-1, 2**31 - 1),
                thinkingLevel=one_of("THINKING_LEVEL_UNSPECIFIED", "MINIMAL", "LOW", "MEDIUM", "HIGH", "XHIGH"),
            ),
            imageConfig=OBJECT,
            mediaResolution=TEXT,
        ),
    ),
)
_EMBED = closed(
    "content",
    model={"type": "string", "pattern": "^models/"},
    content=_CONTENT,
    taskType=one_of(
        "TASK_TYPE_UNSPECIFIED",
        "RETRIEVAL_QUERY",
        "RETRIEVAL_DOCUMENT",
        "SEMANTIC_SIMILARITY",
        "CLASSIFICATION",
        "CLUSTERING",
        "QUESTION_ANSWERING",
        "FACT_VERIFICATION",
        "CODE_RETRIEVAL_QUERY",
    ),
    title=TEXT,
    outputDimensionality=within(1, 3072),
)
GEMINI_EMBED = Document("https://ai.google.dev/api/embeddings#method:-models.embedcontent", "2026-11-23", _EMBED)
GEMINI_EMBED_BATCH = Document(
    "https://ai.google.dev/api/embeddings#method:-models.batchembedcontents",
    "2026-11-23",
    closed("requests", requests=many({**_EMBED, "required": ["model", "content"]}, minItems=1, maxItems=100)),
)
GEMINI_MODELS = Document(
    "https://ai.google.dev/api/models#method:-models.list",
    "2026-11-23",
    closed(pageSize={"type": "string", "pattern": r"^\d{1,4}$"}, pageToken=TEXT, key=TEXT, alt=one_of("json")),
)

_NAMED = closed("name", name=TEXT)
_TOOL = closed(
    "type function",
    type=one_of("function"),
    function=closed(
        "name",
        name={"type": "string", "pattern": r"^[A-Za-z0-9_-]{1,64}$"},
        description=TEXT,
        parameters=OBJECT,
        strict={"type": ["boolean", "null"]},
    ),
)
_MESSAGE = closed(
    "role content",
    role=one_of("developer", "system", "user", "assistant", "tool"),
    content={"anyOf": [TEXT, many(closed("type text", type=one_of("text"), text=TEXT), minItems=1)]},
    name=TEXT,
)
OPENAI_CHAT = Document(
    "https://platform.openai.com/docs/api-reference/chat/create, by its OpenAPI 2.3.0 "
    "(https://docs.rs/crate/openai-client-base/latest)",
    "2026-11-23",
    closed(
        "model messages",
        model=TEXT,
        messages=many(_MESSAGE, minItems=1),
        stream={"type": ["boolean", "null"]},
        max_tokens=within(1, 2**31 - 1),
        max_completion_tokens=within(1, 2**31 - 1),
        temperature=within(0, 2, "number"),
        top_p=within(0, 1, "number"),
        n=within(1, 128),
        seed=WHOLE,
        stop={"anyOf": [TEXT, many(TEXT, maxItems=4)]},
        presence_penalty=within(-2, 2, "number"),
        frequency_penalty=within(-2, 2, "number"),
        logprobs=FLAG,
        top_logprobs=within(0, 20),
        logit_bias=OBJECT,
        user=TEXT,
        safety_identifier=TEXT,
        prompt_cache_key=TEXT,
        prompt_cache_retention=TEXT,
        modalities=many(TEXT),
        audio=OBJECT,
        prediction=OBJECT,
        stream_options=OBJECT,
        web_search_options=OBJECT,
        functions=many(OBJECT),
        function_call={"anyOf": [TEXT, OBJECT]},
        store={"type": ["boolean", "null"]},
        metadata=OBJECT,
        service_tier=one_of("auto", "default", "flex", "scale", "priority"),
        verbosity=one_of("low", "medium", "high"),
        reasoning_effort=one_of("none", "minimal", "low", "medium", "high", "xhigh"),
        parallel_tool_calls=FLAG,
        tools=many(_TOOL, minItems=1, maxItems=128),
        tool_choice={
            "anyOf": [
                one_of("none", "auto", "required"),
                closed("type function", type=one_of("function"), function=_NAMED),
            ]
        },
        response_format={
            "anyOf": [
                closed("type", type=one_of("text", "json_object")),
                closed(
                    "type json_schema",
                    type=one_of("json_schema"),
                    json_schema=closed(
                        "name",
                        name={"type": "string", "pattern": r"^[A-Za-z0-9_-]{1,64}$"},
                        description=TEXT,
                        schema=OBJECT,
                        strict={"type": ["boolean", "null"]},
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
        input={"anyOf": [WORDS, many(WORDS, minItems=1, maxItems=2048)]},
        encoding_format=one_of("float", "base64"),
        dimensions=within(1, 4096),
        user=TEXT,
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
        auto_parameters=FLAG,
        topic=one_of("general", "news", "finance"),
        search_depth=one_of("basic", "advanced", "fast", "ultra-fast"),
        chunks_per_source=within(1, 3),
        max_results=within(0, 20),
        time_range=one_of("day", "week", "month", "year", "d", "w", "m", "y", None),
        days=within(1, 10_000),
        start_date=_DAY,
        end_date=_DAY,
        include_answer={"enum": [True, False, "basic", "advanced"]},
        include_raw_content={"enum": [True, False, "markdown", "text"]},
        include_images=FLAG,
        include_image_descriptions=FLAG,
        include_favicon=FLAG,
        include_domains=many(WORDS),
        exclude_domains=many(WORDS),
        country=TEXT,
        include_usage=FLAG,
        exact_match=FLAG,
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
        exclude=TEXT,
        count=within(1, 50),
        page=within(1, 10_000),
    ),
)
RAGFLOW_RETRIEVAL = Document(
    "https://github.com/infiniflow/ragflow/blob/main/docs/references/http_api_reference.md (Retrieve chunks)",
    "2026-11-23",
    closed(
        "question",
        question=WORDS,
        dataset_ids=many(WORDS),
        document_ids=many(WORDS),
        page=within(1, 10_000),
        page_size=within(1, 100),
        similarity_threshold=within(0, 1, "number"),
        vector_similarity_weight=within(0, 1, "number"),
        top_k=within(1, 100_000),
        rerank_id=TEXT,
        keyword=FLAG,
        highlight=FLAG,
        cross_languages=many(TEXT),
        metadata_condition=OBJECT,
        use_kg=FLAG,
        toc_enhance=FLAG,
    ),
)
_DIGITS = {"type": "string", "pattern": r"^\d{1,5}$"}
ARXIV_QUERY = Document(
    "https://info.arxiv.org/help/api/user-manual.html",
    "2026-11-23",
    closed(
        search_query=WORDS,
        id_list=TEXT,
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
        trans=TEXT,
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
        engines=TEXT,
        language=TEXT,
        pageno=_DIGITS,
        time_range=one_of("", "day", "week", "month", "year"),
        safesearch=one_of("0", "1", "2"),
        results_on_new_tab=one_of("0", "1"),
        image_proxy=one_of("True", "False"),
        autocomplete=TEXT,
        enabled_plugins=TEXT,
        disabled_plugins=TEXT,
        enabled_engines=TEXT,
        disabled_engines=TEXT,
        theme=TEXT,
    ),
)
