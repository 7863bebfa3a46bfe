"""The chat as a whole: web service and research worker over one Kafka, offline models and data."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from infra.settings import Settings
from newsproof.app.processes.research import serve_research
from tests.newsproof.web.conftest import Serving
from tests.newsproof.web.reading import streaming
from tests.newsproof.web.test_web_research import CHAT, STAGES
from tests.streams.world import World


@asynccontextmanager
async def research(settings: Settings) -> AsyncIterator[None]:
    ending = asyncio.Event()
    working = asyncio.create_task(serve_research(settings, ending))
    try:
        yield
    finally:
        ending.set()
        await working


async def test_a_question_is_answered_by_the_agents_and_every_step_is_seen(
    world: World, web_settings: Settings, serving: Serving
) -> None:
    at = web_settings.model_copy(
        update={"clickhouse_url": "http://127.0.0.1:9"}
    )  # away: found signals are missing, and said
    async with serving() as http, research(at):
        question = {"message": "Should I buy Bitcoin now? Analyse macro, technicals and on-chain data."}
        async with streaming(http, CHAT, method="POST", json=question) as stream:
            sent = await stream.rest()
        kinds = [one.event for one in sent]
        stages = [one.data["data"]["stage"] for one in sent if one.event == "status"]
        assert list(dict.fromkeys(stages)) == list(STAGES)
        assert kinds.index("super_agent_decision") < kinds.index("planning_result") < kinds.index("data_collected")
        agents = {one.data["data"]["agent_name"]: one.data["data"] for one in sent if one.event == "agent_result"}
        assert set(agents) == {"MacroAgent", "TAAgent", "OnChainAgent"}
        assert all(len(one["reasoning"]) <= 200 and one["full"]["prompt_sent"] for one in agents.values())
        assert kinds[-2:] == ["final_answer", "done"]
        answer = sent[-2].data["data"]
        assert answer["answer"] and answer["metadata"]["provider_mode"] == "offline"
