"""Agents over the Model Context Protocol: the protocol's own client, over both transports, on the real pipeline."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from infra.settings import Settings
from newsproof.web.mcp_server import WARNING, _input_that_ends
from tests.newsproof.web.conftest import Serving
from tests.newsproof.web.test_web_tables import tables
from tests.newsproof.web.test_web_verify import CLAIM, REPORTED, settings, working
from tests.streams.world import World, news

__all__ = ["settings", "tables"]  # fixtures
TOOLS = {
    "verify_claim", "search_signals", "get_case", "explain_verdict", "run_sql", "start_investigation", "get_investigation",
}  # fmt: skip
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("verify_claim", {}, "Field required"),
    ("verify_claim", {"claim": ""}, "at least 1 character"),
    ("verify_claim", {"claim": "?!"}, "contains no words: write the sentence to check"),
    ("get_case", {"case_id": "no such case"}, "no case matches 'no such case'"),
    ("explain_verdict", {"case_id": "0" * 8 + "-0000-5000-8000-" + "0" * 12}, "see /api/v1/cases for all cases"),
    ("search_signals", {"before": "x"}, "before"),
    ("search_signals", {"verdict": "true"}, "Input should be"),
    ("run_sql", {"query": "SELECT 1; SELECT 2"}, "send one statement"),
    ("start_investigation", {"subject": "…"}, "holds no word"),
    ("get_investigation", {"investigation_id": "x"}, "String should match pattern"),
    ("no_such_tool", {}, "no_such_tool"),
]


async def told(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """The structured result, which the client checks against the tool's schema."""
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, answer.content
    found: dict[str, Any] = answer.structured_content
    assert found["warning"] == WARNING
    return found


async def is_whole(client: Client, *, sql: str) -> None:
    """List and call everything. ``sql``: of the answer to a statement."""
    listed = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert set(listed) == TOOLS
    assert all(tool.output_schema and tool.description for tool in listed.values())
    checked = await told(client, "verify_claim", claim=CLAIM, deadline_s=60)
    assert (checked["reached"], checked["verdict"]) == ("final", "unconfirmed")
    case = await told(client, "get_case", case_id=checked["case_id"])
    assert case["news"]["text"] == CLAIM and case["timeline"] and case["findings"]
    why = await told(client, "explain_verdict", case_id=checked["case_id"])
    assert (why["verdict"], why["confidence"][-1]["confidence"]) == (checked["verdict"], checked["confidence"])
    found = await told(client, "search_signals", words="coin number 99")
    assert [REPORTED in one["summary_en"] for one in found["items"]] == [True]
    assert (await told(client, "search_signals", words=CLAIM))["items"] == []
    answer = await client.call_tool("run_sql", {"query": "SELECT 40 + 2 AS answer"})
    assert sql in str(answer.structured_content or answer.content)
    started = await told(client, "start_investigation", subject="DeepSeek")
    read = await told(client, "get_investigation", investigation_id=started["investigation_id"], wait_s=0.2)
    assert (read["investigation_id"], read["state"]) == (started["investigation_id"], "running")
    for tool, arguments, words in REFUSED:
        refused = await client.call_tool(tool, arguments)
        assert refused.is_error and words in str(refused.content), (tool, refused.content)
    assert {str(one.uri) for one in (await client.list_resources()).resources} == {
        "newsproof://signals",
        "newsproof://cases",
    }
    [template] = (await client.list_resource_templates()).resource_templates
    named = template.uri_template.replace("{case_id}", checked["case_id"])
    for uri, words in (("newsproof://signals", REPORTED), ("newsproof://cases", REPORTED), (named, CLAIM)):
        text = str((await client.read_resource(uri)).contents[0])
        assert words in text and WARNING in text
    with pytest.raises(MCPError, match="no case matches"):
        await client.read_resource("newsproof://cases/unheard-of")


@asynccontextmanager
async def with_a_signal(settings: Settings, world: World) -> AsyncIterator[None]:
    async with working(settings):
        await world.publish(news(text=REPORTED))
        await world.until_closed(1)
        yield


async def test_over_http(settings: Settings, world: World, serving: Serving, tables: str) -> None:
    async with serving(clickhouse_url=tables) as http, with_a_signal(settings, world):
        bearer = {"authorization": http.headers["authorization"]}
        async with (
            httpx2.AsyncClient(headers=bearer, timeout=90) as agent,
            Client(streamable_http_client(f"{http.base_url}mcp", http_client=agent)) as client,
        ):
            await is_whole(client, sql="[[42]]")


@pytest.mark.slow
async def test_over_standard_input_and_output(settings: Settings, world: World, web_settings: Settings) -> None:
    given = web_settings.model_dump(mode="json", exclude_unset=True)
    env = {name.upper(): str(value) for name, value in given.items() if value is not None}
    command = StdioServerParameters(
        command=sys.executable, args=["-P", "-m", "newsproof", "mcp"], env={**os.environ, **env, "PYTHONPATH": "."}
    )
    strange: list[Any] = []  # such as a line on standard output that is no message

    async def take(message: Any) -> None:
        strange.append(message)

    async with with_a_signal(settings, world), Client(command, message_handler=take) as client:
        await is_whole(client, sql="ClickHouse is not responding")
    assert strange == []


@pytest.mark.slow
async def test_without_a_pipeline_the_agent_is_told_what_to_do(tmp_path: Any) -> None:
    at = {"NEWSPROOF_DATA_DIR": str(tmp_path), "NEWSPROOF_MODE": "offline", "KAFKA_BOOTSTRAP_SERVERS": ""}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "newsproof", "mcp", env={**os.environ, **at, "PYTHONPATH": "."},
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await process.communicate()
    assert (process.returncode, out) == (2, b"")
    assert f"no pipeline is running on {tmp_path}: start one with" in err.decode()


def test_standard_input_passes_on_and_ends_for_its_readers_while_the_host_holds_it_open() -> None:
    kept = os.dup(0)
    ours, theirs = os.pipe()
    os.dup2(ours, 0)
    try:
        end = _input_that_ends()
        os.write(theirs, b"a message\n")
        assert os.read(0, 100) == b"a message\n"
        end()
        assert os.read(0, 100) == b""
    finally:
        os.dup2(kept, 0)
        os.close(theirs)
