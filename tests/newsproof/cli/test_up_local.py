"""`newsproof up` with models of one's own and no key: live, and nobody outside is asked for a word."""

from __future__ import annotations

import asyncio
import json
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.infra.fakes import openai as fake
from tests.infra.fakes.server import FakeServer
from tests.newsproof.command import COMMAND, NOBODY_OUTSIDE, environment, newsproof

pytestmark = pytest.mark.slow
ITEM = {"source": "s", "external_id": "1", "published_at": "2025-02-21T16:00:00Z"}


class Constrained(FakeServer):
    """Ollama, whose model has only its grammar: it answers any schema with the least that fits it."""

    def __init__(self) -> None:
        super().__init__(self)

    async def respond(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        wanted = self.requests[-1].json.get("response_format")
        said = "ETH" if wanted is None else orjson.dumps(least(wanted["json_schema"]["schema"])).decode()
        usage = {"prompt_tokens": 900, "completion_tokens": 90, "total_tokens": 990}
        await fake.text(said, model="qwen3:8b", usage=usage).respond(reader, writer)


def least(schema: dict[str, Any]) -> Any:
    """Return the least instance of a strict schema."""
    if "anyOf" in schema:
        return least(schema["anyOf"][-1])
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema["type"] if isinstance(schema["type"], str) else schema["type"][0]
    if kind == "object":
        return {name: least(one) for name, one in schema["properties"].items()}
    plain = {"array": [], "string": "ETH", "boolean": False, "null": None}
    return plain.get(kind, 0.9 if kind == "number" else 1)


async def test_with_a_local_model_and_no_key_up_judges_live_and_for_nothing(tmp_path: Path) -> None:
    async with Constrained() as ollama:
        own = {
            **{"MODEL_LIGHT": "ollama:qwen3:8b", "MODEL_HEAVY": "ollama:qwen3:8b", "TOOL_SEARCH_ENABLED": "false"},
            **{"OLLAMA_BASE_URL": f"{ollama.url}/v1", "METRICS_PORT": "0", "WEB_PORT": "0", **NOBODY_OUTSIDE},
        }
        up = await asyncio.create_subprocess_exec(*COMMAND, "up", cwd=tmp_path, env=environment(**own), stderr=PIPE)
        try:
            assert up.stderr is not None
            said = ""
            while "In another terminal" not in said:
                line = (await up.stderr.readline()).decode()
                assert line, f"it ended: {said}"
                said += line
            assert "live (real models and search)" in said
            item = json.dumps({**ITEM, "text": "Bybit cold wallet hacked, 400,000 ETH drained, the exchange says"})
            await asyncio.to_thread(newsproof, "publish", "-", cwd=tmp_path, env=own, stdin=f"{item}\n".encode())
            case: dict[str, Any] = {}
            while case.get("status") != "signal":
                assert up.returncode is None, "it ended"
                done = await asyncio.to_thread(newsproof, "cases", "--json", cwd=tmp_path, env=own)
                case = json.loads(next(iter(done.stdout.splitlines()), "{}"))
        finally:
            up.terminate()
            await up.wait()
    assert (case["asset"], case["cost_usd"], case["degraded"]) == ("ETH", "0", "")
    assert {r.path for r in ollama.requests} == {"/v1/chat/completions"}
    assert not any("authorization" in r.headers for r in ollama.requests)
