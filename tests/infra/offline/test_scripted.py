"""The scripted server over a real connection: what a prompt's words change, what stays, and that nobody takes it for a model."""

from __future__ import annotations

from datetime import UTC, datetime

import httpx
import pytest
from msgspec.structs import replace

from agents.prompts import all_prompts, load_prompts
from infra.models.openai_client import OpenAICompatibleClient
from infra.models.openai_compatible import SERVICE, OpenAICompatibleModel
from infra.offline.scripted import LIGHT, MARK, SCRIPTED_HEADER
from infra.offline.scripted.answering import SAYS_SO
from infra.offline.scripted.reading import asked
from infra.offline.scripted.server import ScriptedServer
from infra.offline.scripted.stance import model_s, stance_of
from infra.settings import Settings
from newsproof.app.composition import refuse_unusable, snapshot_of
from schemas.config import Prompt
from schemas.effects import CallModel, Untrusted
from schemas.errors import ConfigError, PermanentError
from schemas.events import SignalSynthesized
from tests.infra.offline.driving import HACK_EN, HACK_ZH, driving, snapshot

STRICTER = "Be strict and cautious: doubt every figure."
BOLDER = "Be bold, generous and optimistic."


def changed(name: str, words: str) -> Prompt:
    prompt = load_prompts()[name]
    return replace(prompt, version="99", text=f"{prompt.text}\n{words}\n", hash=f"hash of {words}")


@pytest.mark.parametrize(("text", "language"), [(HACK_EN, "en"), (HACK_ZH, "zh")])
async def test_a_case_runs_to_a_deep_signal_that_is_labelled_simulated(text: str, language: str) -> None:
    async with driving() as driver:
        run = await driver.case(text, snapshot(), language=language)
    end = run.case.head
    assert isinstance(end, SignalSynthesized) and end.path == "deep"
    assert (end.signal.provider_mode, "offline" in end.signal.risk_flags) == ("simulated", True)
    assert SAYS_SO in end.signal.notes
    models = [(e, a) for e, a in driver.performed if isinstance(e, CallModel)]
    assert {e.task for e, _ in models} >= {"triage", "plan", "synthesize"}
    assert all(a.usage_input_tokens > 100 and a.usage_output_tokens > 10 for _, a in models)
    assert all(a.cost_usd > 0 and a.cost_source.startswith("simulated, nobody was paid") for _, a in models)


async def test_the_same_prompts_give_the_same_signal_again_although_the_marks_differ() -> None:
    signals = []
    for _ in range(2):
        async with driving() as driver:
            signals.append((await driver.case(HACK_EN, snapshot())).case.head.signal)
    assert signals[0] == signals[1]


KNOWN = "Poly Network exploited, more than $600M moved from three chains"
WHEN = datetime(2021, 8, 10, 14, tzinfo=UTC)
"""News that the corpus has pages of, so that its verdict leaves a range to choose in."""


async def test_strict_words_in_the_synthesis_prompt_lower_the_confidence_and_bold_ones_raise_it() -> None:
    async with driving() as driver:
        plain, strict, bold = [
            (await driver.case(KNOWN, config, at=WHEN)).case.head.signal.confidence
            for config in (
                snapshot(),
                snapshot(synthesize=changed("synthesize", STRICTER)),
                snapshot(synthesize=changed("synthesize", BOLDER)),
            )
        ]
    assert strict < plain < bold


def test_the_shipped_prompts_have_no_stance() -> None:
    assert {f"{p.name} v{p.version}": stance_of(p.text) for p in all_prompts() if stance_of(p.text)} == {}


def test_latencies_are_drawn_around_their_median_and_are_none_where_none_is_asked_for() -> None:
    drawn = sorted(model_s("realistic", "heavy", f"text {n}", 100, "0") for n in range(999))
    assert drawn[499] == pytest.approx(1.6, rel=0.05)
    assert 1.6 < drawn[950] / drawn[499] < 2.0
    assert model_s("realistic", "heavy", "text 7", 100, "0") in drawn
    assert model_s("none", "heavy", "text", 100, "0") == 0


async def test_an_adapter_in_live_mode_refuses_what_the_scripted_server_says() -> None:
    async with ScriptedServer() as server:
        model = OpenAICompatibleModel(OpenAICompatibleClient(SERVICE, api_key="sk-x", base_url=server.url), model=LIGHT)
        question = CallModel(
            task="triage", tier="light", prompt_name="triage", prompt_version="1", prompt_hash="", system="Judge.",
            parts=(Untrusted("news", HACK_EN),), response_schema={"type": "object", "properties": {"spam": {}}},
        )  # fmt: skip
        try:
            with pytest.raises(PermanentError, match="SCRIPTED_MODEL_URL") as refused:
                await model.perform(question)
        finally:
            await model.close()
    assert refused.value.kind == "not_configured"


def test_the_task_of_a_prompt_is_told_by_its_schema() -> None:
    found = {p.name: asked(LIGHT, "", "", schema=p.schema).call.task for p in load_prompts().values() if p.schema}
    assert found == {name: "triage" if name == "single_pass_final" else name for name in found}
    assert {"triage", "critique", "expand", "synthesize"} <= set(found)


async def test_every_answer_and_every_refusal_says_that_it_is_scripted() -> None:
    async with ScriptedServer() as server, httpx.AsyncClient(trust_env=False) as http:
        address = f"{server.url}/chat/completions"
        hello = {"model": LIGHT, "messages": [{"role": "user", "content": "Hello?"}]}
        answered = await http.post(address, json=hello)
        refusals = [
            await http.post(address, content=b"{"),
            await http.post(address, json={"model": LIGHT}),
            await http.post(address, json={**hello, "model": "gpt-5"}),
            await http.post(address, json={**hello, "stream": True}),
            await http.post(address, json={**hello, "tools": [{"type": "function"}]}),
        ]
    assert answered.json()["system_fingerprint"] == MARK
    assert answered.json()["choices"][0]["message"]["content"].startswith(SAYS_SO)
    assert [r.status_code for r in refusals] == [400, 400, 404, 400, 400]
    assert all(r.headers[SCRIPTED_HEADER] == MARK and r.json()["error"]["message"] for r in (*refusals,))
    assert server.asked.total() == 1


def settings(**of: object) -> Settings:
    return Settings(_env_file=None, **of)  # type: ignore[arg-type, call-arg]


def test_naming_the_server_makes_the_mode_simulated_and_never_live() -> None:
    assert settings(scripted_model_url="http://127.0.0.1:1/v1").mode == "simulated"
    with_key = settings(scripted_model_url="http://127.0.0.1:1/v1", gemini_api_key="k")
    assert with_key.mode == "live", "a key that was given goes before: what is paid for is live"
    chosen = settings(scripted_model_url="http://127.0.0.1:1/v1", newsproof_mode="simulated")
    assert (snapshot_of(chosen).provider_mode, snapshot_of(chosen).synthesis_choice) == ("simulated", "model")
    refuse_unusable(chosen)
    with pytest.raises(ConfigError, match="SCRIPTED_MODEL_URL"):
        refuse_unusable(settings(scripted_model_url="nowhere", newsproof_mode="simulated"))


async def test_a_port_that_is_taken_is_refused_with_words() -> None:
    async with ScriptedServer() as server:
        taken = int(server.url.split(":")[2].split("/")[0])
        with pytest.raises(ConfigError, match="name another one"):
            await ScriptedServer(port=taken).start()
