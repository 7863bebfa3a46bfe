"""Parsing and writing of ``POST /v1/chat/completions`` (https://platform.openai.com/docs/api-reference/chat)."""

from __future__ import annotations

from typing import Any

import orjson

from infra.offline.scripted import MARK, MODELS
from infra.offline.scripted.answering import Said
from infra.offline.scripted.reading import Asked, asked
from schemas.effects import FunctionDeclaration


class BadRequestError(Exception):
    """The API would reject the request; ``param`` names the faulty field."""

    def __init__(self, message: str, param: str | None = None, *, status: int = 400) -> None:
        super().__init__(message)
        self.param, self.status = param, status

    @property
    def body(self) -> dict[str, Any]:
        """The error in the API's format."""
        kind = "invalid_request_error"
        return {"error": {"message": str(self), "type": kind, "param": self.param, "code": None}}


def read_request(body: bytes) -> Asked:
    """Return the question of a request.

    Raises:
        BadRequestError: the API would reject it.
    """
    try:
        sent = orjson.loads(body)
        model, messages = sent["model"], sent["messages"]
        texts = [(m["role"], _text(m["content"])) for m in messages]
    except (orjson.JSONDecodeError, KeyError, TypeError) as exc:
        raise BadRequestError(f"no chat completion can be read from this: {exc!r}") from exc
    if model not in MODELS:
        raise BadRequestError(f"the model {model!r} does not exist here: {', '.join(MODELS)}", "model", status=404)
    if sent.get("stream"):
        raise BadRequestError("the scripted server does not stream", "stream")
    form = sent.get("response_format") or {}
    named = form.get("json_schema") or {}
    chosen = sent.get("tool_choice")
    return asked(
        model,
        "\n\n".join(t for role, t in texts if role in ("system", "developer")),
        "\n\n".join(t for role, t in texts if role == "user"),
        functions=[_function(one) for one in sent.get("tools") or ()],
        forced=chosen["function"]["name"] if isinstance(chosen, dict) else None,
        schema=named.get("schema"),
        name=named.get("name", ""),
    )


def completion(question: Asked, said: Said, number: int) -> dict[str, Any]:
    calls = [
        {
            "id": f"call_{number}_{place}",
            "type": "function",
            "function": {"name": call.name, "arguments": orjson.dumps(call.args).decode()},
        }
        for place, call in enumerate(said.reply.function_calls)
    ]
    text = said.reply.text or (None if calls else orjson.dumps(said.reply.data).decode())
    message = {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}
    return {
        "id": f"chatcmpl-scripted-{number}",
        "object": "chat.completion",
        "created": 0,
        "model": question.model,
        "system_fingerprint": MARK,
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}],
        "usage": {
            "prompt_tokens": said.input_tokens,
            "completion_tokens": said.output_tokens,
            "total_tokens": said.input_tokens + said.output_tokens,
        },
    }


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content or ())


def _function(tool: dict[str, Any]) -> FunctionDeclaration:
    try:
        found = tool["function"]
        return FunctionDeclaration(found["name"], found.get("description", ""), found.get("parameters", {}))
    except (KeyError, TypeError) as exc:
        raise BadRequestError(f"a tool is no function: {exc!r}", "tools") from exc
