"""The chat as a whole: web service and research worker over one Kafka, offline models and data."""

from __future__ import annotations

import httpx

from tests.newsproof.web.reading import streaming
from tests.newsproof.web.test_web_research import CHAT, STAGES


async def test_a_question_is_answered_by_the_agents_and_every_step_is_seen(answering: httpx.AsyncClient) -> None:
    # ClickHouse is away: found signals are missing, and said.
    question = {"message": "Should I buy Bitcoin now? Analyse macro, technicals and on-chain data."}
    async with streaming(answering, CHAT, method="POST", json=question) as stream:
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
