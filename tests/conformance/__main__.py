"""The conformance servers by hand, to try live mode against: ``.venv/bin/python -m tests.conformance``.

Prints the lines of a ``.env`` that lead to them, and serves until Ctrl-C. They check every request as the tests do; models
answer by the scripted reading of our own prompts, GDELT finds one page about whatever was asked for, Tavily always the same one.
Pages and the chat's sources are the real ones where there is a network. At the end it prints what was refused and billed.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import orjson

from infra.offline.scripted.answering import answer
from infra.offline.scripted.reading import asked
from schemas.effects import FunctionDeclaration, ModelReply
from tests.conformance.documented import OPENAI_CHAT
from tests.conformance.gemini import GeminiServer
from tests.conformance.keyed_searches import TavilyServer
from tests.conformance.open_searches import GdeltServer, gdelt_article
from tests.conformance.openai import OpenAIServer
from tests.conformance.server import ConformanceServer, Refusal, body_fault, path_of, query_of
from tests.infra.fakes.openai import calling, error, listed
from tests.infra.fakes.server import Received, Say

PULLED = "qwen3:8b"
PLANS = "decide_next_tools"


@dataclass(frozen=True)
class Judged:
    """Answers a model call as the scripted server reads our prompts."""

    server: Any
    request: Received

    async def respond(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        said = await (gemini_reply if isinstance(self.server, GeminiServer) else openai_reply)(
            self.server, self.request
        )
        await said.respond(reader, writer)


def judging(server: Any, request: Received) -> Any:
    """Return the scripted judgement of a chat, and the plain good answer to anything else."""
    chat = "generateContent" in request.path or path_of(request).endswith("/chat/completions")
    return Judged(server, request) if chat else server.answer(request)


async def gemini_reply(server: GeminiServer, request: Received) -> Say:
    body = request.json
    config = body.get("generationConfig", {})
    declared = [f for tool in body.get("tools", ()) for f in tool.get("functionDeclarations", ())]
    calling = body.get("toolConfig", {}).get("functionCallingConfig", {})
    reply = await scripted(
        "\n\n".join(part["text"] for part in body.get("systemInstruction", {}).get("parts", ())),
        "\n\n".join(part["text"] for content in body["contents"] for part in content["parts"]),
        [{**f, "parameters": f.get("parameters_json_schema") or f.get("parametersJsonSchema") or {}} for f in declared],
        (calling.get("allowedFunctionNames") or [None])[0],
        config.get("responseJsonSchema"),
    )
    calls = [{"functionCall": {"name": c.name, "args": c.args}} for c in reply.function_calls]
    return server.reply(request, *(calls or [{"text": text_of(reply)}]))


async def openai_reply(server: OpenAIServer, request: Received) -> Say:
    body = request.json
    said = {role: [m["content"] for m in body["messages"] if m["role"] == role] for role in ("system", "user")}
    tools = [tool["function"] for tool in body.get("tools", ())]
    choice = body.get("tool_choice")
    forced = (
        choice["function"]["name"] if isinstance(choice, dict) else tools[0]["name"] if choice == "required" else None
    )
    form = body.get("response_format", {}).get("json_schema", {})
    schema = form.get("schema")
    if form.get("name") == "plan":  # a function in the dress of a schema, for a server that forces none
        tools, forced = [{"name": PLANS, "parameters": schema}], PLANS
    reply = await scripted("\n\n".join(said["system"]), "\n\n".join(said["user"]), tools, forced, schema)
    calls = reply.function_calls
    if calls and "tools" in body:
        return server.completion(request, calling(calls[0].name, orjson.dumps(calls[0].args).decode()))
    return server.completion(request, {"content": orjson.dumps(calls[0].args).decode() if calls else text_of(reply)})


async def scripted(
    system: str, said: str, functions: list[dict[str, Any]], forced: str | None, schema: dict[str, Any] | None
) -> ModelReply:
    if schema is not None and "ok" in schema.get("properties", {}):
        return ModelReply(data={"ok": True})  # what doctor asks
    declared = [FunctionDeclaration(f["name"], f.get("description", ""), f["parameters"]) for f in functions]
    question = asked("conformance-light", system, said, functions=declared, forced=forced, schema=schema)
    return (await answer(question, "0")).reply


def text_of(reply: ModelReply) -> str:
    return reply.text or orjson.dumps(reply.data).decode()


class OllamaServer(OpenAIServer):
    """Ollama on this machine: no key, one model that is pulled, no price."""

    def refusal(self, request: Received) -> Refusal | None:
        if path_of(request) != "/v1/chat/completions":
            return None
        body, fault = body_fault(request, OPENAI_CHAT)
        if fault is not None:
            return Refusal(fault.said, error(400, fault.said))
        missing = f"model '{body['model']}' not found"
        return None if body["model"] == PULLED else Refusal(missing, error(404, missing))

    def answer(self, request: Received) -> Say:
        if path_of(request) == "/api/ps":
            return Say({"models": [{"name": PULLED, "model": PULLED, "context_length": 32_768}]})
        return listed({PULLED: {"created": 0, "owned_by": "library"}})

    def _charge(self, request: Received, model: str, usage: dict[str, Any]) -> None:
        self.charge(Decimal(0), request)


def seen_today(server: GdeltServer, request: Received) -> Say:
    """Return one article of an hour ago that says what was asked for."""
    asked_for = query_of(request)["query"][0]
    return server.found(
        request,
        gdelt_article(
            title=f"Officials confirm: {asked_for}"[:200],
            seendate=f"{datetime.now(UTC) - timedelta(hours=1):%Y%m%dT%H%M%SZ}",
        ),
    )


async def main() -> None:
    servers: dict[str, ConformanceServer] = {
        "GEMINI_BASE_URL": GeminiServer(judging),
        "OLLAMA_BASE_URL": OllamaServer(judging),
        "TAVILY_BASE_URL": TavilyServer(),
        "GDELT_BASE_URL": GdeltServer(seen_today, now=datetime.now(UTC)),
    }
    async with contextlib.AsyncExitStack() as stack:
        for setting, server in servers.items():
            await stack.enter_async_context(server)
            path = "/v1" if setting == "OLLAMA_BASE_URL" else ""
            print(f"{setting}={server.url}{path}", flush=True)  # type: ignore[attr-defined]
        print(f"GEMINI_API_KEY={GeminiServer.key}", flush=True)
        print(
            f"# or: TAVILY_API_KEY={TavilyServer.key}, MODEL_LIGHT=ollama:{PULLED}, MODEL_HEAVY=ollama:{PULLED}",
            flush=True,
        )
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            for setting, server in servers.items():
                print(
                    f"{setting}: {len(server.requests)} requests, {server.billed_usd} USD, refused: {server.refusals}"
                )


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())
