"""The scripted server: an HTTP server on loopback with the latency of a model and the answers of ``answering.py``."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from types import TracebackType
from typing import Any

import orjson
from aiohttp import web

from infra.offline.scripted import MARK, MODELS, SCRIPTED_HEADER
from infra.offline.scripted.answering import ScriptedAnswer, answer
from infra.offline.scripted.reading import ModelRequest, asked
from infra.offline.scripted.stance import Profile, model_s
from schemas.effects import FunctionDeclaration
from schemas.errors import ConfigError

HOST = "127.0.0.1"
MAX_REQUEST_BYTES = 4 * 1024 * 1024


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


def read_request(body: bytes) -> ModelRequest:
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
        functions=[_function(tool) for tool in sent.get("tools") or ()],
        forced=chosen["function"]["name"] if isinstance(chosen, dict) else None,
        schema=named.get("schema"),
        name=named.get("name", ""),
    )


def completion(question: ModelRequest, answered: ScriptedAnswer, number: int) -> dict[str, Any]:
    calls = [
        {
            "id": f"call_{number}_{place}",
            "type": "function",
            "function": {"name": call.name, "arguments": orjson.dumps(call.args).decode()},
        }
        for place, call in enumerate(answered.reply.function_calls)
    ]
    text = answered.reply.text or (None if calls else orjson.dumps(answered.reply.data).decode())
    message = {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}
    return {
        "id": f"chatcmpl-scripted-{number}",
        "object": "chat.completion",
        "created": 0,
        "model": question.model,
        "system_fingerprint": MARK,
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}],
        "usage": {
            "prompt_tokens": answered.input_tokens,
            "completion_tokens": answered.output_tokens,
            "total_tokens": answered.input_tokens + answered.output_tokens,
        },
    }


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content or ())


def _function(tool: dict[str, Any]) -> FunctionDeclaration:
    try:
        function = tool["function"]
        return FunctionDeclaration(function["name"], function.get("description", ""), function.get("parameters", {}))
    except (KeyError, TypeError) as exc:
        raise BadRequestError(f"a tool is no function: {exc!r}", "tools") from exc


class ScriptedServer:
    """Use as ``async with ScriptedServer() as server``; then ``server.url``. ``asked`` counts answers by task."""

    def __init__(self, *, port: int = 0, latency: Profile = "none", seed: str = "0") -> None:
        """``port`` 0 picks a free port. ``seed`` changes the draws of answers and latencies."""
        self._port, self._latency, self._seed = port, latency, seed
        self._numbers = itertools.count(1)
        self._runner: web.AppRunner | None = None
        self.asked: Counter[str] = Counter()
        self.url = ""

    async def start(self) -> None:
        """Listen.

        Raises:
            ConfigError: the port is in use.
        """
        app = web.Application(client_max_size=MAX_REQUEST_BYTES)
        app.router.add_post("/v1/chat/completions", self._complete)
        app.router.add_get("/v1/models", self._models)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, HOST, self._port).start()
        except OSError as exc:
            await self.stop()
            raise ConfigError(f"port {self._port} cannot be opened ({exc}): name another one, or 0") from exc
        self.url = f"http://{HOST}:{self._runner.addresses[0][1]}/v1"

    async def stop(self) -> None:
        """Stop listening. Idempotent."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def __aenter__(self) -> ScriptedServer:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, exc: Any, traceback: TracebackType | None) -> None:
        await self.stop()

    async def _complete(self, request: web.Request) -> web.Response:
        try:
            question = read_request(await request.read())
        except BadRequestError as exc:
            return _json(exc.body, status=exc.status)
        answered = await answer(question, self._seed)
        self.asked[question.call.task] += 1
        took_s = model_s(self._latency, question.call.tier, question.text, answered.output_tokens, self._seed)
        if took_s:
            await asyncio.sleep(took_s)
        return _json(completion(question, answered, next(self._numbers)))

    async def _models(self, _: web.Request) -> web.Response:
        listed = [{"id": name, "object": "model", "created": 0, "owned_by": MARK} for name in MODELS]
        return _json({"object": "list", "data": listed})


def _json(body: dict[str, Any], *, status: int = 200) -> web.Response:
    return web.Response(
        body=orjson.dumps(body), status=status, content_type="application/json", headers={SCRIPTED_HEADER: MARK}
    )
