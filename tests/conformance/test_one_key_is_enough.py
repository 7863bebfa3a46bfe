"""`newsproof up` by docs/live.md: with one key, or with a local model and none, it judges live and searches without a key."""

from __future__ import annotations

import asyncio
import json
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.__main__ import PULLED, OllamaServer, judging, seen_today
from tests.conformance.gemini import GeminiServer
from tests.conformance.open_searches import GdeltServer
from tests.newsproof.command import COMMAND, NOBODY_OUTSIDE, environment, newsproof

pytestmark = pytest.mark.slow
NEWS = "SEC approves spot Solana exchange-traded products of three issuers, first trading on Tuesday"


@asynccontextmanager
async def up(directory: Path, own: Mapping[str, str]) -> AsyncIterator[str]:
    """Run `newsproof up` with these settings; yield what it said when it was ready."""
    process = await asyncio.create_subprocess_exec(*COMMAND, "up", cwd=directory, env=environment(**own), stderr=PIPE)
    said = ""
    try:
        assert process.stderr is not None
        while "In another terminal" not in said:
            line = (await process.stderr.readline()).decode()
            assert line, f"it ended: {said}"
            said += line
        yield said
        assert process.returncode is None, "it ended"
    finally:
        process.terminate()
        await process.wait()


async def judged(directory: Path, own: Mapping[str, str]) -> dict[str, Any]:
    """Publish the news; return the case once it has a signal."""
    item = {"source": "me", "text": NEWS, "published_at": datetime.now(UTC).isoformat()}
    await asyncio.to_thread(newsproof, "publish", "-", cwd=directory, env=own, stdin=f"{json.dumps(item)}\n".encode())
    follow = (*COMMAND, "signals", "--follow", "--json")
    signals = await asyncio.create_subprocess_exec(*follow, cwd=directory, env=environment(**own), stdout=PIPE)
    assert signals.stdout is not None
    stage = ""
    while stage != "final":
        stage = json.loads(await signals.stdout.readline())["stage"]
    signals.terminate()
    await signals.wait()
    done = await asyncio.to_thread(newsproof, "cases", "--json", cwd=directory, env=own)
    case: dict[str, Any] = json.loads(done.stdout.splitlines()[0])
    assert case["status"] == "signal"
    return case


QUIET = {"METRICS_PORT": "0", "WEB_PORT": "0", **NOBODY_OUTSIDE}


async def test_one_key_of_gemini_judges_live(tmp_path: Path) -> None:
    async with GeminiServer(judging) as gemini, GdeltServer(seen_today, now=datetime.now(UTC)) as gdelt:
        own = QUIET | {"GEMINI_API_KEY": gemini.key, "GEMINI_BASE_URL": gemini.url, "GDELT_BASE_URL": gdelt.url}
        async with up(tmp_path, own) as said:
            assert "live (real models and search)" in said and "gdelt because no search key is set" in said
            case = await judged(tmp_path, own)
        billed = gemini.billed_usd
        doctor = await asyncio.to_thread(newsproof, "doctor", "--live", "--yes", "--json", cwd=tmp_path, env=own)
    rows = [json.loads(line) for line in doctor.stdout.splitlines()]
    calls = {row["name"]: row["state"] for row in rows if row["name"].startswith("call (gemini")}
    assert len(calls) == 2 and set(calls.values()) == {"ok"}, rows
    assert (case["asset"], case["end"].rpartition(" ")[2], case["degraded"]) == ("SOL", "(likely)", "")
    assert Decimal(case["cost_usd"]) == billed, "to the digit what the provider billed"
    assert (gemini.refusals, gdelt.refusals) == ([], []) and gdelt.requests


@pytest.mark.long
async def test_a_local_model_judges_live_without_any_key_and_for_nothing(tmp_path: Path) -> None:
    async with OllamaServer(judging) as ollama, GdeltServer(seen_today, now=datetime.now(UTC)) as gdelt:
        models = {"MODEL_LIGHT": f"ollama:{PULLED}", "MODEL_HEAVY": f"ollama:{PULLED}"}
        own = QUIET | models | {"OLLAMA_BASE_URL": f"{ollama.url}/v1", "GDELT_BASE_URL": gdelt.url}
        async with up(tmp_path, own) as said:
            assert "live (real models and search)" in said
            case = await judged(tmp_path, own)
    assert (case["asset"], case["cost_usd"], case["degraded"]) == ("SOL", "0", "")
    assert (ollama.refusals, gdelt.refusals) == ([], [])
    assert not any("authorization" in request.headers for request in ollama.requests)
