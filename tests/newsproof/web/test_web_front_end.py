"""A front end that knows the documented fields alone: it talks HTTP, and imports nothing of the product."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx

from tests.newsproof.web.test_web_guard import asking, settings_of

CHAT = "/api/v1/research/chat"
AGENTS = ["macro_agent", "ta_agent", "onchain_agent"]
QUESTION = "What is BTC's trend, and has the SEC approved a Solana ETF?"
INDICATORS = {"fed_funds_rate", "m2_growth", "dxy", "fear_greed", "treasury_yield"}


async def events(response: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    assert response.status_code == 200 and response.headers["content-type"].startswith("text/event-stream")
    async for line in response.aiter_lines():
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))


class Panel:
    """What such a front end shows: one box per step of the plan, and the answer."""

    def __init__(self) -> None:
        self.boxes: dict[str, dict[str, Any]] = {}
        self.tokens = 0
        self.answer: dict[str, Any] = {}
        self.seen: list[str] = []

    def take(self, event: dict[str, Any]) -> None:
        data = event["data"]
        assert data["timestamp"]
        self.seen.append(event["type"])
        self.tokens += data.get("tokens_used", 0)
        match event["type"]:
            case "planning_result":
                plan = data["task_breakdown"]
                for step in (*plan["analysis_phase"], plan["decision_phase"]):
                    self.boxes[step["step_id"]] = {"agent": step["agent"], "after": step["depends_on"], "result": None}
            case "agent_result":
                assert data["agent_name"] == data["agent"]
                self.boxes[data["step_id"]]["result"] = data
            case "final_answer":
                self.boxes[data["step_id"]]["result"] = self.answer = data


async def test_a_front_end_of_the_documented_fields_shows_a_whole_turn(answering: httpx.AsyncClient) -> None:
    panel = Panel()
    body = {"message": QUESTION, "chat_history": []}
    async with answering.stream("POST", CHAT, params={"format": "compat"}, json=body) as response:
        chat_id = response.headers["x-chat-id"]
        async for event in events(response):
            panel.take(event)
    assert panel.seen[0] == "status" and panel.seen[-2:] == ["final_answer", "done"]
    assert list(panel.boxes) == [*AGENTS, "general_analysis_agent"]
    assert panel.boxes["general_analysis_agent"]["after"] == AGENTS
    results = [panel.boxes[agent]["result"] for agent in AGENTS]
    assert all(one["signal"] in {"BULLISH", "BEARISH", "NEUTRAL"} for one in results)
    assert all(one["confidence_level"] in {"HIGH", "MEDIUM", "LOW"} for one in (*results, panel.answer))
    macro = results[0]["macro_indicators"]
    assert set(macro) == INDICATORS and all(set(one) == {"value", "impact", "weight"} for one in macro.values())
    assert any(one["value"] is not None and one["weight"] > 0 for one in macro.values())
    assert panel.answer["sources"] == [*AGENTS, "general_analysis_agent"] and panel.tokens > 0
    # Both halves: the figures of the agents, and plain words on the cases, which cannot be looked up here.
    assert "BTC" in panel.answer["summary"] and "could not be looked up" in panel.answer["answer"]

    plain = Panel()
    async with answering.stream("GET", f"{CHAT}/{chat_id}") as response:
        async for event in events(response):
            plain.seen.append(event["type"])
            if event["type"] == "agent_result":
                assert len(event["data"]["reasoning"]) <= 200 and event["data"]["full"]["prompt_sent"]
    assert plain.seen == panel.seen

    again = Panel()
    async with answering.stream("GET", f"{CHAT}/{chat_id}", params={"format": "compat"}) as response:
        async for event in events(response):
            again.take(event)
    assert (again.seen, again.boxes) == (panel.seen, panel.boxes)


async def test_an_unknown_format_is_refused_before_anything_is_asked() -> None:
    async with asking(settings_of()) as http:
        refused = await http.post(CHAT, params={"format": "other"}, json={"message": QUESTION})
    assert refused.status_code == 400 and "x-chat-id" not in refused.headers
