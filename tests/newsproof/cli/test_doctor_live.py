"""``doctor --live``: what is asked and at what price, what each answer says, and that nothing untried is called sound."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from infra.embedded.child import free_ports
from infra.offline.scripted.server import ScriptedServer
from infra.settings import Settings
from newsproof.app import exits
from newsproof.cli.operate.doctor import _kafka
from newsproof.cli.operate.live_calls import (
    CallCheck,
    CallPlan,
    Check,
    is_same_model,
    make_calls,
    plan_calls,
    quota_left,
)
from schemas.errors import ConfigError
from tests.infra.fakes import embeddings, gemini, openai, tavily
from tests.infra.fakes.server import Behaviour, FakeServer, Say, StaySilent
from tests.newsproof.command import COMMAND, NOBODY_OUTSIDE, environment, newsproof

OK = json.dumps({"ok": True})
LIGHT, HEAVY = "gemini-2.5-flash-lite", "gemini-3.8-flash"


def models(*names: str, context: int = 1_048_576) -> Say:
    """Return Gemini's list of models (https://ai.google.dev/api/models)."""
    return Say({"models": [{"name": f"models/{name}", "inputTokenLimit": context} for name in names]})


def answered(model: str, **headers: str) -> Say:
    usage = {"promptTokenCount": 12, "candidatesTokenCount": 5, "totalTokenCount": 17}
    said = gemini.text(OK, modelVersion=model, usageMetadata=usage)
    return Say(said.body, headers=headers)


def live(**values: Any) -> Settings:
    silent = {name.lower(): address for name, address in NOBODY_OUTSIDE.items()}
    given = {"model_light": LIGHT, "model_heavy": HEAVY, "tool_search_enabled": False, "model_timeout_seconds": 60.0}
    return Settings(**{"_env_file": None, "newsproof_mode": "live", **given, **silent, **values})


async def rows_of(settings: Settings) -> dict[str, Check]:
    plan = plan_calls(settings)
    try:
        return {
            f"{row.name}: {row.found.split()[0]}" if row.name.startswith("models") else row.name: row
            for row in await make_calls(plan)
        }
    finally:
        await plan.close()


async def of_gemini(*script: Behaviour, **values: Any) -> dict[str, Check]:
    async with FakeServer(*script) as server:
        return await rows_of(live(gemini_api_key="g-key", gemini_base_url=server.url, **values))


def call(rows: dict[str, Check], name: str) -> CallCheck:
    row = rows[f"call ({name})"]
    assert isinstance(row, CallCheck)
    return row


async def as_command(cwd: Path, *arguments: str, **env: str) -> tuple[int, list[dict[str, Any]], str]:
    """Run doctor in a process of its own; return its status, its rows and what it said on standard error."""
    done = await asyncio.to_thread(newsproof, "doctor", "--json", *arguments, cwd=cwd, env=NOBODY_OUTSIDE | env)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


# As a command


async def test_every_configured_provider_is_called_once_and_says_what_answered_at_what_cost(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    async with (
        FakeServer(answered(LIGHT), answered(HEAVY), models(LIGHT, HEAVY)) as google,
        FakeServer(tavily.results(tavily.item())) as searching,
        FakeServer(openai.text(OK), Say({"data": [{"id": "gpt-5-mini"}]})) as other,
    ):
        env = {
            **{"GEMINI_API_KEY": "gemini-geheim", "GEMINI_BASE_URL": google.url, "MODEL_LIGHT": LIGHT},
            **{"MODEL_HEAVY": HEAVY, "MODEL_HEAVY_FALLBACK": "openai:gpt-5-mini", "ALLOW_UNPRICED": "true"},
            **{"OPENAI_API_KEY": "openai-geheim", "OPENAI_BASE_URL": f"{other.url}/v1"},
            **{"TAVILY_API_KEY": "tavily-geheim", "TAVILY_BASE_URL": searching.url},
            **{"BINANCE_BASE_URL": f"http://127.0.0.1:{port}", "TOOL_PRICE_ENABLED": "true"},
        }
        status, rows, said = await as_command(tmp_path, "--live", "--yes", **env)
        assert [r.path for r in searching.requests] == ["/search"]
        assert [r.method for r in google.requests] == ["POST", "POST", "GET"]
        assert [r.path for r in other.requests] == ["/v1/chat/completions", "/v1/models"]
    calls = {row["name"]: row for row in rows if row["name"].startswith("call ")}
    assert {name: row["answered"] for name, row in calls.items()} == {
        **{f"call (gemini:{LIGHT})": True, f"call (gemini:{HEAVY})": True, "call (openai:gpt-5-mini)": True},
        **{"call (search, tavily)": True, "call (price)": False},
    }
    assert (calls["call (search, tavily)"]["cost_usd"], calls["call (search, tavily)"]["found"][:9]) == (
        "0.008",
        "returned ",
    )
    assert calls["call (openai:gpt-5-mini)"]["model"] == "gpt-5-mini-2025-08-07"
    assert all(Decimal(row["cost_usd"]) <= Decimal(row["worst_usd"]) for row in calls.values() if row["cost_usd"])
    assert "This makes 5 call(s), at most 0.0" in said and "1 of unknown price" in said
    assert status == exits.FINDING and calls["call (price)"]["state"] == "missing", "nobody has the price"
    assert "geheim" not in json.dumps(rows, ensure_ascii=False) + said


@pytest.mark.slow
async def test_without_live_nothing_with_a_key_is_sent_and_what_was_not_tried_is_not_called_sound(
    tmp_path: Path,
) -> None:
    async with FakeServer(Say(status=500)) as server:
        env = {
            "GEMINI_API_KEY": "g",
            "GEMINI_BASE_URL": server.url,
            "TAVILY_API_KEY": "t",
            "TAVILY_BASE_URL": server.url,
            "OPENAI_GATEWAYS": f"lite={server.url}/v1",  # at a local address, and with a key all the same
            "OPENAI_KEY_LITE": "l",
            "MODEL_LIGHT_FALLBACK": "lite:x",
            "ALLOW_UNPRICED": "true",
        }
        status, rows, _ = await as_command(tmp_path, **env)
        done = await asyncio.to_thread(newsproof, "doctor", cwd=tmp_path, env=NOBODY_OUTSIDE | env)
        assert server.requests == []
    untried = {row["name"]: (row["found"], row["do"]) for row in rows if row["name"].startswith("call ")}
    models = {f"call (gemini:{LIGHT})", f"call (gemini:{HEAVY})", "call (lite:x)"}
    assert set(untried) == {*models, "call (search, tavily)"}
    assert set(untried.values()) == {("configured, not tried", "newsproof doctor --live")}
    assert (status, done.returncode) == (exits.OK, exits.OK)
    last = done.stdout.splitlines()[-1]
    assert last.startswith("Nothing is missing, as far as this can be checked without a call")


@pytest.mark.slow
async def test_without_a_terminal_it_asks_nobody_and_calls_nobody(tmp_path: Path) -> None:
    async with FakeServer(Say(status=500)) as server:
        env = {"GEMINI_API_KEY": "g", "GEMINI_BASE_URL": server.url, "TOOL_SEARCH_ENABLED": "false"}
        status, rows, said = await as_command(tmp_path, "--live", **env)
        assert server.requests == []
    assert (status, rows) == (exits.USAGE, [])
    assert "This makes 2 call(s), at most 0.0" in said and "add --yes" in said


@pytest.mark.slow
async def test_a_model_server_of_ones_own_that_does_not_answer_is_to_be_mended_without_live_too(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    env = {"MODEL_LIGHT": "ollama:qwen3:8b", "MODEL_HEAVY": "ollama:qwen3:8b", "TOOL_SEARCH_ENABLED": "false"}
    status, rows, _ = await as_command(tmp_path, OLLAMA_BASE_URL=f"http://127.0.0.1:{port}/v1", **env)
    [row] = [row for row in rows if row["state"] == "missing"]
    assert status == exits.FINDING
    assert row["name"] == "models of ollama" and "ollama serve" in row["do"] and "OLLAMA_BASE_URL" in row["do"]


async def test_an_embedded_kafka_without_a_java_is_to_be_mended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def none() -> None:
        raise ConfigError("no Java works: install one")

    monkeypatch.setattr("infra.embedded.kafka.java.find_java", none)
    found = await _kafka(Settings(_env_file=None, newsproof_data_dir=tmp_path))  # type: ignore[call-arg]
    assert (found.state, found.do) == ("missing", "no Java works: install one")


# What an answer says


HTML = Say(b"<html>hi</html>", headers={"content-type": "text/html"})
OF_HEAVY, CALL_LIGHT, CALL_HEAVY = f"models of gemini: {HEAVY}", f"call (gemini:{LIGHT})", f"call (gemini:{HEAVY})"
GONE = (answered(LIGHT), gemini.error(404, "NOT_FOUND", f"models/{HEAVY} is not found"), models(LIGHT))
OTHER = (answered("gemini-2.5-flash"), answered(f"{HEAVY}-001"), models(LIGHT, HEAVY))
LIGHT_ALONE = {"model_heavy": LIGHT}
VECTORS = {**LIGHT_ALONE, "embedding_provider": "gemini", "embedding_timeout_seconds": 60}
SILENT = {**LIGHT_ALONE, "model_timeout_seconds": 0.2}
ANSWERS: dict[str, tuple[Sequence[Behaviour], dict[str, Any], str, str, str, str]] = {
    "a model that is listed": (GONE, {}, f"models of gemini: {LIGHT}", "ok", "", ""),
    "one that is not, and another that is open": (GONE, {}, OF_HEAVY, "missing", HEAVY, f"such as {LIGHT}"),
    "the adapter's own words": (GONE, {}, CALL_HEAVY, "missing", "", "not open to this key"),
    "one that answers all the same": ((answered(LIGHT), answered(HEAVY), models(LIGHT)), {}, OF_HEAVY, "note", "but it responded", ""),
    "another model": (OTHER, {}, CALL_LIGHT, "note", "a different name", LIGHT),
    "a snapshot": (OTHER, {}, CALL_HEAVY, "ok", "", ""),
    "an HTML page": ((HTML, models(LIGHT)), LIGHT_ALONE, CALL_LIGHT, "missing", "the response is an HTML page", "GEMINI_BASE_URL"),
    "a wrong key": ((gemini.WRONG_KEY, models(LIGHT)), LIGHT_ALONE, CALL_LIGHT, "missing", "FAILED (auth)", "GEMINI_API_KEY"),
    "overload": ((gemini.error(503, "UNAVAILABLE"), models(LIGHT)), LIGHT_ALONE, CALL_LIGHT, "missing", "FAILED (unavailable)", "unavailable"),
    "no candidate": ((gemini.NO_CANDIDATE, models(LIGHT)), LIGHT_ALONE, CALL_LIGHT, "missing", "FAILED (invalid_output)", "candidate"),
    "silence": ((StaySilent(),), SILENT, CALL_LIGHT, "missing", "FAILED (timeout)", ""),
    "a vector": ((answered(LIGHT), embeddings.gemini_vectors([0.1] * 256, tokens=1), models(LIGHT)), VECTORS, "call (vectors, gemini:gemini-embedding-2)", "ok", "a vector of 256 numbers", ""),
}  # fmt: skip


@pytest.mark.parametrize(("script", "values", "name", "state", "found", "do"), ANSWERS.values(), ids=ANSWERS)
async def test_what_an_answer_says(
    script: Sequence[Behaviour], values: dict[str, Any], name: str, state: str, found: str, do: str
) -> None:
    row = (await of_gemini(*script, **values))[name]
    assert (row.state, found in row.found, do in row.do) == (state, True, True), row
    may_pass = ("FAILED (unavailable)", "FAILED (invalid_output)", "FAILED (timeout)")
    assert ("Check again later" in row.do) == row.found.startswith(may_pass), "a wrong key does not pass by itself"
    assert not isinstance(row, CallCheck) or row.answered is (state != "missing")


async def test_what_was_paid_for_an_answer_of_no_use_is_counted_and_an_unknown_cost_is_never_zero() -> None:
    rows = await of_gemini(gemini.NO_CANDIDATE, StaySilent(), models(LIGHT, HEAVY), model_timeout_seconds=0.5)
    paid, lost = call(rows, f"gemini:{LIGHT}"), call(rows, f"gemini:{HEAVY}")
    assert paid.cost_usd is not None and paid.cost_usd > 0 and f"{paid.cost_usd.normalize():f} USD" in paid.found
    assert lost.cost_usd is None and "cost unknown" in lost.found
    assert "1 of unknown cost" in rows["cost of this check"].found


async def test_the_scripted_server_is_told_from_a_model() -> None:
    async with ScriptedServer() as server:
        at = live(
            openai_api_key="k", openai_base_url=server.url, model_light="openai:scripted", model_heavy="openai:scripted"
        )
        rows = await rows_of(at)
    row = call(rows, "openai:scripted")
    assert row.state == "missing" and "scripted model server" in row.do


async def test_the_quota_that_headers_tell_is_shown() -> None:
    left = {
        "x-ratelimit-remaining-requests": "4999",
        "x-ratelimit-limit-requests": "5000",
        "x-ratelimit-remaining-tokens": "7",
    }
    rows = await of_gemini(answered(LIGHT, **left), models(LIGHT), model_heavy=LIGHT)
    assert call(rows, f"gemini:{LIGHT}").quota == ("requests: 4999 of 5000 left", "tokens: 7 left")
    assert quota_left({"anthropic-ratelimit-tokens-remaining": "9", "anthropic-ratelimit-tokens-limit": "10"}) == (
        "tokens: 9 of 10 left",
    )
    assert quota_left({"x-ratelimit-reset-requests": "1s", "content-type": "text/html"}) == ()


@pytest.mark.parametrize(
    ("off_s", "age", "state", "says"),
    [
        (-3600, "0", "note", "ahead of"),
        (3600, "0", "note", "behind"),
        (0, "0", "ok", "1 server"),
        (-300, "300", "ok", ""),
    ],
)
async def test_a_clock_that_is_off_is_a_note(off_s: int, age: str, state: str, says: str) -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=off_s), usegmt=True)
    rows = await of_gemini(answered(LIGHT, date=date, age=age), models(LIGHT), model_heavy=LIGHT)
    assert rows["clock"].state == state and says in rows["clock"].found
    skew = call(rows, f"gemini:{LIGHT}").skew_s
    assert skew is not None and skew == pytest.approx(-off_s - int(age), abs=60)


# Models of one's own


def context(tokens: int) -> Say:
    return Say({"data": [{"id": "qwen", "max_model_len": tokens}]})


@pytest.mark.parametrize(("tokens", "state"), [(4096, "missing"), (16_384, "note"), (131_072, "ok")])
async def test_a_context_too_short_for_our_prompts_is_said(tokens: int, state: str) -> None:
    async with FakeServer(openai.text(OK, model="qwen"), context(tokens)) as server:
        own = {"openai_gateways": f"own={server.url}/v1", "model_light": "own:qwen", "model_heavy": "own:qwen"}
        rows = await rows_of(live(**own))
    row = rows["models of own: qwen"]
    assert row.state == state and f"{tokens:,} tokens" in row.found
    assert call(rows, "own:qwen").cost_usd == 0


async def test_a_gateway_without_a_list_is_a_note_when_its_models_answer() -> None:
    async with FakeServer(openai.text(OK, model="qwen"), Say(b"no", status=404)) as server:
        own = {"openai_gateways": f"own={server.url}/v1", "model_light": "own:qwen", "model_heavy": "own:qwen"}
        rows = await rows_of(live(**own))
    assert [row.state for name, row in rows.items() if name.startswith("models of own")] == ["note"]


async def test_a_key_of_the_chats_data_is_tried_and_a_refused_one_is_said() -> None:
    async with FakeServer(
        Say({"error_code": 400, "error_message": "Bad Request. The value for api_key is not registered."}, status=400)
    ) as fred:
        rows = await of_gemini(
            answered(LIGHT), models(LIGHT), model_heavy=LIGHT, fred_api_key="f", fred_api_base_url=fred.url
        )
        assert fred.requests, "it was asked"
    row = call(rows, "chat, economy")
    assert row.state == "missing" and "FRED_API_KEY" in row.do


@pytest.mark.parametrize("status", [200, 503])
async def test_a_key_that_a_provider_sends_back_is_shown_nowhere(status: int) -> None:
    """In its words, in what it calls its model, in a header that is shown, and in its list of models."""
    body = gemini.text(OK, modelVersion="gemini-geheim").body | {"error": {"code": 503, "message": "got gemini-geheim"}}
    echo = Say(body, status=status, headers={"x-ratelimit-remaining-requests": "gemini-geheim"})
    async with FakeServer(echo, models("gemini-geheim")) as server:
        rows = await rows_of(live(gemini_api_key="gemini-geheim", gemini_base_url=server.url, model_heavy=LIGHT))
        assert server.requests[0].headers["x-goog-api-key"] == "gemini-geheim"
    assert "[secret]" in str(rows), "what was sent back did come through here"
    assert "geheim" not in str(rows)


@pytest.mark.slow
async def test_at_a_terminal_it_asks_first_and_no_means_no(tmp_path: Path) -> None:
    async with FakeServer(Say(status=500)) as server:
        env = {"GEMINI_API_KEY": "g", "GEMINI_BASE_URL": server.url, "TOOL_SEARCH_ENABLED": "false"} | NOBODY_OUTSIDE
        ours, theirs = pty.openpty()
        os.write(ours, b"n\n")
        command = [*COMMAND, "doctor", "--live", "--json"]
        done = await asyncio.to_thread(
            subprocess.run, command, cwd=tmp_path, env=environment(**env), stdin=theirs, capture_output=True, text=True
        )
        os.close(ours)
        os.close(theirs)
        assert server.requests == []
    assert "USD. Continue? [y/N]" in done.stderr
    assert done.stdout.count("configured, not tried") == 2 and done.returncode == exits.OK


@pytest.mark.parametrize(
    ("asked", "told", "same"),
    [
        ("gpt-5-mini", "gpt-5-mini-2025-08-07", True),
        ("gemini-2.5-flash", "gemini-2.5-flash-lite", False),
        ("gemini-2.5-flash-lite", "gemini-2.5-flash", False),
        ("anthropic/claude-x", "claude-x-20260101", True),
        ("llama3.2", "llama3.2:latest", True),
        ("qwen", "/models/qwen.gguf", True),
        ("gpt-5", "gpt-5-mini", False),
    ],
)
def test_a_snapshot_is_the_same_model_and_a_sibling_is_not(asked: str, told: str, same: bool) -> None:
    assert is_same_model(asked, told) is same


def test_outside_of_live_mode_there_is_nothing_to_call() -> None:
    assert plan_calls(live(newsproof_mode="offline")) == CallPlan()
