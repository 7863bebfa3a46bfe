"""Situations of single models: what they say, what they count, and why they stop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from schemas.effects import ModelReply
from tests.conformance.documented import GEMINI_GENERATE, in_camel_case
from tests.conformance.rows import MALFORMED, USELESS, Must, Row, body_of, good, say
from tests.conformance.server import Situation
from tests.infra.fakes import gemini, openai
from tests.infra.fakes.server import Received, Say

TEXT = "The reserves are whole, said the company."
REFUSED = Must("refused")
NO_REQUEST = Must("invalid_request", cost="nothing")
CUT = Must("cut", says=("cut",))
PLAN = {"tools": [], "reason": "said"}


def parts(*said: dict[str, Any], finish: str = "STOP", **more: Any) -> Situation:
    """Return a candidate of these parts."""
    return lambda server, request: server.reply(request, *said, finish=finish, **more)


def message(said: dict[str, Any], finish: str = "", **more: Any) -> Situation:
    """Return a choice with this message."""
    return lambda server, request: server.completion(request, said, finish=finish, **more)


def edited(change: Callable[[dict[str, Any]], Any]) -> Situation:
    """Answer well, with the JSON edited on its way."""

    def situation(server: Any, request: Any) -> Say:
        body = orjson.loads(body_of(good(server, request)))
        change(body)
        return Say(body)

    return situation


def raw(old: bytes, new: bytes) -> Situation:
    """Answer well, with some bytes of the body replaced."""

    def situation(server: Any, request: Any) -> Say:
        body = body_of(good(server, request))
        assert old in body, body
        return Say(body.replace(old, new, 1))

    return situation


def says(text: str) -> Callable[[Any], bool]:
    return lambda reply: isinstance(reply, ModelReply) and reply.text == text


def calls_plan(reply: Any) -> bool:
    return isinstance(reply, ModelReply) and [(c.name, c.args) for c in reply.function_calls] == [
        ("decide_next_tools", PLAN)
    ]


def gives_data(reply: Any) -> bool:
    return isinstance(reply, ModelReply) and reply.data == {"confidence": 0.5}


def two_candidates(server: Any, request: Received) -> Say:
    body = orjson.loads(body_of(server.reply(request, {"text": TEXT})))
    other = {"content": {"role": "model", "parts": [{"text": "No."}]}, "finishReason": "STOP", "index": 1}
    return Say({**body, "candidates": [*body["candidates"], other]})


def config_of(server: Any) -> dict[str, Any]:
    """Return the generationConfig of the last request, its names as Google documents them."""
    body = in_camel_case(orjson.loads(server.requests[-1].body), GEMINI_GENERATE.schema)
    config: dict[str, Any] = body.get("generationConfig", {})
    return config


def sends_thinking(**wanted: Any) -> Situation:
    """Answer well if the request's thinkingConfig is this one, else not at all as a client would want it."""

    def situation(server: Any, request: Received) -> Say:
        sent = config_of(server).get("thinkingConfig", {})
        kept = {name: sent.get(name) for name in ("thinkingLevel", "thinkingBudget") if name in sent}
        return good(server, request) if kept == wanted else gemini.error(418, "UNKNOWN", f"thinkingConfig is {sent}")

    return situation


def without_sampling(server: Any, request: Received) -> Say:
    sent = {"temperature", "candidateCount", "topP", "topK"} & set(config_of(server))
    return gemini.error(418, "UNKNOWN", f"{sorted(sent)} was sent") if sent else good(server, request)


def refusing(field: str, kind: type, said: str) -> Situation:
    """Answer as a server that does not take a field of this type: 400 that names it, else well."""

    def situation(server: Any, request: Received) -> Say:
        sent = orjson.loads(request.body).get(field)
        taken = not isinstance(sent, kind) or (isinstance(sent, dict) and sent.get("type") == "json_object")
        return good(server, request) if taken else openai.error(400, said, param=field)

    return situation


def asking_for(wanted: Callable[[dict[str, Any]], bool], what: str) -> Situation:
    """Answer well if the request is as wanted, else in a way that no row expects."""

    def situation(server: Any, request: Received) -> Say:
        return good(server, request) if wanted(orjson.loads(request.body)) else openai.error(418, f"no {what} was sent")

    return situation


GOOGLE = ("gemini",)
FLASH, LITE_3, PRO = {"model": "gemini-3.8-flash"}, {"model": "gemini-3.5-flash-lite"}, {"model": "gemini-2.5-pro"}
GEMINI_ANSWERS = (
    Row("JSON by schema", GOOGLE, "JSON by the schema that was sent", Must(), good, ask="json", reply=gives_data),
    Row("forced function", GOOGLE, "a call of the forced function", Must(), good, ask="function", reply=calls_plan),
    Row(
        *("thoughts shown", GOOGLE, "a part of thoughts before the answer: it is no part of it"),
        Must(),
        parts({"text": "Who said so?", "thought": True}, {"text": TEXT}),
        reply=says(TEXT),
    ),
    Row("two candidates", GOOGLE, "two candidates: the first is taken", Must(), two_candidates, reply=says(TEXT)),
    Row(
        "no usage",
        GOOGLE,
        "an answer without usageMetadata",
        Must(cost="unknown"),
        parts({"text": TEXT}, usageMetadata=None),
    ),
    Row(
        *("lone surrogate", GOOGLE, "half of a character in the text: it is replaced"),
        Must(),
        raw(b"The reserves", rb"The \ud800reserves"),
    ),
    Row("safety block", GOOGLE, "finishReason SAFETY", REFUSED, parts(finish="SAFETY")),
    Row("recitation", GOOGLE, "finishReason RECITATION", REFUSED, parts(finish="RECITATION")),
    Row("blocked prompt", GOOGLE, "no candidate, but a blockReason", REFUSED, lambda s, r: s.blocked(r)),
    Row("empty candidates", GOOGLE, "an empty list of candidates", MALFORMED, parts(candidates=[])),
    Row("no candidates", GOOGLE, "neither candidates nor a blockReason", MALFORMED, parts(candidates=None)),
    Row("no parts", GOOGLE, "a candidate without parts", MALFORMED, parts()),
    Row("thoughts only", GOOGLE, "thoughts, and no answer", MALFORMED, parts({"text": "Hm.", "thought": True})),
    Row(
        *("malformed call", GOOGLE, "finishReason MALFORMED_FUNCTION_CALL"),
        MALFORMED,
        parts(finish="MALFORMED_FUNCTION_CALL"),
        ask="function",
    ),
    Row(
        *("function not offered", GOOGLE, "a call of a function that was not offered"),
        MALFORMED,
        parts({"functionCall": {"name": "rm", "args": {}}}),
        ask="function",
    ),
    Row("words where a call was forced", GOOGLE, "a text", MALFORMED, parts({"text": TEXT}), ask="function"),
    Row("words where JSON was asked for", GOOGLE, "a text", MALFORMED, parts({"text": "Sure!"}), ask="json"),
    Row(
        "half of the JSON",
        GOOGLE,
        "finishReason STOP, and JSON that breaks off",
        MALFORMED,
        parts({"text": '{"conf'}),
        ask="json",
    ),
    Row(
        "a reason of next year",
        GOOGLE,
        "a finishReason that nobody knows",
        MALFORMED,
        parts({"text": TEXT}, finish="BORED"),
    ),
    Row(
        "arguments beyond 64 bits",
        GOOGLE,
        "2^64 among the arguments of a call",
        MALFORMED,
        raw(b'"said"', b"18446744073709551616"),
        ask="function",
    ),
    Row(
        "NaN",
        GOOGLE,
        "NaN for a count of tokens",
        USELESS,
        raw(b'"candidatesTokenCount":', b'"candidatesTokenCount":NaN,"x":'),
    ),
    Row(
        "huge number",
        GOOGLE,
        "1e400 for a count of tokens",
        USELESS,
        raw(b'"candidatesTokenCount":', b'"candidatesTokenCount":1e400,"x":'),
    ),
    Row(
        "text is a number",
        GOOGLE,
        "a number in place of the text",
        USELESS,
        raw(b'"The reserves are whole, said the company."', b"7"),
    ),
)
GEMINI_THINKING = (
    Row("thinks untold", GOOGLE, "thoughts that are counted and charged as output", Must(), good, settings=LITE_3),
    Row(
        *("thinking eats the limit", GOOGLE, "MAX_TOKENS without a word: the thoughts took all tokens"),
        CUT,
        parts({"text": TEXT}, thinks=100_000),
        settings=PRO,
    ),
    Row(
        *("no room for JSON", GOOGLE, "MAX_TOKENS within the JSON"),
        CUT,
        parts({"text": '{"confidence": 0.5, "why": "' + "so " * 2_000 + '"}'}),
        ask="json",
    ),
    Row(
        *("2.5 with little thinking", GOOGLE, "an answer to thinkingBudget 1024: 2.5 takes a budget"),
        Must(),
        sends_thinking(thinkingBudget=1024),
        ask="thinking low",
    ),
    Row(
        *("2.5 pro without thinking", GOOGLE, "an answer to thinkingBudget 128: it cannot be off"),
        Must(),
        sends_thinking(thinkingBudget=128),
        settings=PRO,
    ),
    Row(
        *("3.8 flash without thinking", GOOGLE, "an answer to thinkingLevel LOW: it refuses MINIMAL"),
        Must(),
        sends_thinking(thinkingLevel="LOW"),
        settings=FLASH,
    ),
    Row(
        *("3.5 flash-lite without thinking", GOOGLE, "an answer to thinkingLevel MINIMAL"),
        Must(),
        sends_thinking(thinkingLevel="MINIMAL"),
        settings=LITE_3,
    ),
    Row(
        *(
            "3.8 flash with much thinking",
            GOOGLE,
            "an answer to thinkingLevel HIGH, whose thoughts are beside its limit",
        ),
        Must(),
        sends_thinking(thinkingLevel="HIGH"),
        ask="thinking high",
        settings=FLASH,
    ),
    Row(
        *("sampling from 3.x on", GOOGLE, "an answer, where temperature and candidateCount were left out"),
        Must(),
        without_sampling,
        settings=LITE_3,
    ),
)
GEMINI_REFUSALS = (
    Row(
        *("model not open", GOOGLE, "404: this model is no longer available to new users"),
        Must("not_open", cost="nothing", breaker="opens", says=("open to this key",)),
        good,
        settings={"model": "gemini-2.5-flash"},
        refused=1,
    ),
    Row(
        *("model not open, 403", GOOGLE, "403 that names the model: not a wrong key"),
        Must("not_open", cost="nothing", breaker="opens", says=("open to this key",)),
        say(
            gemini.error(403, "PERMISSION_DENIED", "You do not have permission to access models/gemini-2.5-flash-lite.")
        ),
    ),
    Row(
        *("no such model", GOOGLE, "404: not found for this version"),
        Must("not_open", cost="nothing", breaker="opens", says=("gemini-9",)),
        good,
        settings={"model": "gemini-9"},
        refused=1,
    ),
    Row(
        *("key expired", GOOGLE, "400 with reason API_KEY_EXPIRED"),
        Must("auth", cost="nothing", breaker="opens", says=("GEMINI_API_KEY",)),
        say(gemini.invalid("API key expired. Please renew the API key.", {"reason": "API_KEY_EXPIRED"})),
    ),
    Row(
        *("region", GOOGLE, "400 FAILED_PRECONDITION: User location is not supported for the API use."),
        NO_REQUEST,
        say(gemini.error(400, "FAILED_PRECONDITION", "User location is not supported for the API use.")),
    ),
    Row(
        *("quota of the minute", GOOGLE, "429 with a QuotaFailure per minute and retryDelay 34.5s"),
        Must("rate_limit", again=True, cost="nothing", breaker="opens", wait_s=34.5),
        say(gemini.quota("GenerateRequestsPerMinutePerProjectPerModel-FreeTier", retry_s=34.5)),
    ),
    Row(
        *(
            "quota of the day",
            GOOGLE,
            "429 with a QuotaFailure PerDay: left alone until midnight Pacific, whatever retryDelay says",
        ),
        Must("rate_limit", again=True, cost="nothing", breaker="opens", until="midnight in California"),
        say(gemini.quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier", retry_s=20)),
    ),
    Row(
        *("request too large", GOOGLE, "413"),
        Must("too_large", cost="nothing"),
        say(gemini.error(413, "INVALID_ARGUMENT", "Request payload size exceeds the limit: 20971520 bytes.")),
    ),
)
GEMINI_VECTORS = (
    Row(
        *("no such embedding model", ("gemini vectors",), "404"),
        Must("not_open", cost="nothing", says=("EMBEDDING_MODEL",)),
        good,
        settings={"model": "gemini-embedding-9"},
        refused=1,
    ),
    Row(
        *("vectors too long", ("gemini vectors",), "400: 4,096 numbers are more than the model makes"),
        Must("invalid_request", cost="nothing", says=("EMBEDDING_DIMENSIONS",)),
        good,
        settings={"dimensions": 4096},
        refused=1,
    ),
    Row(
        "the current embedding model",
        ("gemini vectors",),
        "a vector",
        Must(),
        good,
        settings={"model": "gemini-embedding-2"},
    ),
    Row(
        *("vector too short", ("gemini vectors",), "a vector of one number"),
        Must("invalid_output", again=True, cost="unknown", says=("EMBEDDING_DIMENSIONS",)),
        edited(lambda body: body["embeddings"][0].update(values=[1.0])),
    ),
    Row("vector with NaN", ("gemini vectors",), "NaN in the vector", USELESS, raw(b"[1.0,", b"[NaN,")),
    Row(
        "two vectors",
        ("gemini vectors",),
        "two vectors for one text",
        USELESS,
        edited(lambda b: b["embeddings"].append(b["embeddings"][0])),
    ),
)

COMPATIBLE = ("openai",)
MINI = {"model": "gpt-5-mini"}
OPENAI_ANSWERS = (
    Row("JSON by schema", COMPATIBLE, "JSON by the schema that was sent", Must(), good, ask="json", reply=gives_data),
    Row("forced function", COMPATIBLE, "a call of the forced function", Must(), good, ask="function", reply=calls_plan),
    Row(
        *("<think> before the answer", COMPATIBLE, "thoughts of an open model before the text: they are no part of it"),
        Must(),
        message({"content": f"<think>Who said so?</think>\n{TEXT}"}),
        reply=says(TEXT),
    ),
    Row(
        *("reasoning_content", COMPATIBLE, "thoughts in a field of their own: they are no part of it"),
        Must(),
        message({"content": TEXT, "reasoning_content": "Who said so?"}),
        reply=says(TEXT),
    ),
    Row(
        "no usage", COMPATIBLE, "an answer without usage", Must(cost="unknown"), message({"content": TEXT}, usage=None)
    ),
    Row("refusal", COMPATIBLE, "the field refusal", REFUSED, message({"refusal": "I cannot help with that."})),
    Row(
        "content filter",
        COMPATIBLE,
        "finish_reason content_filter",
        REFUSED,
        message({"content": "The"}, "content_filter"),
    ),
    Row("no choices", COMPATIBLE, "an empty list of choices", MALFORMED, message({"content": TEXT}, choices=[])),
    Row("empty message", COMPATIBLE, "content null, and no call", MALFORMED, message({})),
    Row(
        *("cut JSON", COMPATIBLE, "finish_reason length within the JSON"),
        CUT,
        message({"content": '{"confidence": 0.'}, "length"),
        ask="json",
    ),
    Row(
        *("malformed call", COMPATIBLE, "arguments of a call that are no JSON"),
        MALFORMED,
        message(openai.calling("decide_next_tools", '{"tools": [')),
        ask="function",
    ),
    Row(
        *("function not offered", COMPATIBLE, "a call of a function that was not offered"),
        MALFORMED,
        message(openai.calling("rm", "{}")),
        ask="function",
    ),
    Row("words where a call was forced", COMPATIBLE, "a text", MALFORMED, message({"content": TEXT}), ask="function"),
    Row("words where JSON was asked for", COMPATIBLE, "a text", MALFORMED, message({"content": "Sure!"}), ask="json"),
    Row(
        "NaN",
        COMPATIBLE,
        "NaN for a count of tokens",
        Must(cost="unknown"),
        raw(b'"prompt_tokens":', b'"prompt_tokens":NaN,"x":'),
    ),
    Row(
        "huge number",
        COMPATIBLE,
        "a count of tokens beyond 2^31",
        Must(cost="unknown"),
        raw(b'"prompt_tokens":', b'"prompt_tokens":1000000000000000000000000000000,"x":'),
    ),
)
OPENAI_DIALECTS = (
    Row(
        *(
            "reasoning model",
            COMPATIBLE,
            "400 for max_tokens, then 400 for temperature, then an answer: refusals cost nothing",
        ),
        Must(),
        good,
        settings=MINI,
        requests=3,
        refused=2,
    ),
    Row(
        *("reasoning model with little thinking", COMPATIBLE, "an answer whose thoughts are beside its limit"),
        Must(),
        asking_for(lambda body: body.get("reasoning_effort") == "low", "reasoning_effort low"),
        ask="thinking low",
        settings=MINI,
        requests=3,
        refused=2,
        reply=says(TEXT),
    ),
    Row(
        *("schema that is strict", COMPATIBLE, "JSON by a schema sent with strict: true, where it can be strict"),
        Must(),
        asking_for(lambda body: body["response_format"]["json_schema"].get("strict") is True, "strict schema"),
        ask="json",
    ),
    Row(
        *("no JSON Schema", COMPATIBLE, "400 for response_format json_schema, then JSON by json_object"),
        Must(),
        refusing("response_format", dict, "'response_format.type' must be 'json_object' or 'text'"),
        ask="json",
        requests=2,
    ),
    Row(
        *("no forced function by name", COMPATIBLE, "400 for tool_choice as an object, then a call by required"),
        Must(),
        refusing("tool_choice", dict, "tool_choice must be a string"),
        ask="function",
        requests=2,
        reply=calls_plan,
    ),
    Row(
        *("<think> without an end", COMPATIBLE, "thoughts that never end: no answer"),
        MALFORMED,
        message({"content": "<think>Who said so? The company"}),
    ),
    Row(
        *("two choices", COMPATIBLE, "two choices: the first is taken"),
        Must(),
        edited(
            lambda body: body["choices"].append(
                {**body["choices"][0], "message": {"role": "assistant", "content": "No."}}
            )
        ),
        reply=says(TEXT),
    ),
)
OPENAI_REFUSALS = (
    Row(
        *("plan used up", COMPATIBLE, "429 with code insufficient_quota: no rate limit, but an unpaid bill"),
        Must("plan_limit", cost="nothing", breaker="opens", says=("OPENAI_API_KEY",)),
        say(
            openai.error(429, "You exceeded your current quota.", type="insufficient_quota", code="insufficient_quota")
        ),
    ),
    Row(
        *("payment required", COMPATIBLE, "402, as gateways say it"),
        Must("plan_limit", cost="nothing", breaker="opens"),
        say(openai.error(402, "Insufficient credits.")),
    ),
    Row(
        *("no such model", COMPATIBLE, "404 with code model_not_found"),
        Must("not_open", cost="nothing", breaker="opens", says=("gpt-9",)),
        good,
        settings={"model": "gpt-9"},
        refused=1,
    ),
    Row(
        *("prompt too long", COMPATIBLE, "400 with code context_length_exceeded"),
        Must("too_large", cost="nothing"),
        say(openai.error(400, "This model's maximum context length is 128000 tokens.", code="context_length_exceeded")),
    ),
)
OPENAI_VECTORS = (
    Row(
        *("no such embedding model", ("openai vectors",), "404"),
        Must("not_open", cost="nothing", says=("EMBEDDING_MODEL",)),
        good,
        settings={"model": "text-embedding-9"},
        refused=1,
    ),
    Row("vector with NaN", ("openai vectors",), "NaN in the vector", USELESS, raw(b"[1.0,", b"[NaN,")),
    Row(
        "vector too short",
        ("openai vectors",),
        "a vector of one number",
        USELESS,
        edited(lambda b: b["data"][0].update(embedding=[1.0])),
    ),
)
