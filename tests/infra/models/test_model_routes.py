"""Which model is asked for what, and who is asked after it: read from the settings, wrong ones refused by name."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from agents.prompts import every_task
from infra.models import live_models, routes
from infra.ports import Ports
from infra.settings import Settings, load_settings
from newsproof.app.model_options import options_of
from schemas.errors import ConfigError
from tests.builders import call_model
from tests.infra.fakes.gemini import ASK

TASKS = frozenset({"triage", "critique"})
NO_KEY = {"gemini_api_key": None, "openai_api_key": None}
GATEWAY = {"openai_gateways": "tuzi=https://host.example/v1"}
REFERENCE = """\
# The research chat: a fast model routes, a strong one thinks, each at a first gateway with a second one behind it.
OPENAI_GATEWAYS=tuzi=https://api.tu-zi.com/v1,openrouter=https://openrouter.ai/api/v1
OPENAI_KEY_TUZI=sk-of-the-first
OPENAI_KEY_OPENROUTER=sk-or-of-the-second
MODEL_LIGHT=tuzi:gpt-4o
MODEL_LIGHT_FALLBACK=openrouter:openai/gpt-4o
MODEL_HEAVY=tuzi:claude-sonnet-4-5-20250929-thinking
MODEL_HEAVY_FALLBACK=openrouter:anthropic/claude-sonnet-4.5
MODEL_TASKS=research_route=tuzi:gpt-4o|openrouter:openai/gpt-4o,research_macro=tuzi:claude-opus-4-5-20251101|openrouter:anthropic/claude-opus-4.5
# 40,000 tokens of answer and 16,384 of thinking stay below the 64,000 that the model writes at most.
MODEL_OPTIONS=research_macro=thinking:high|max_output_tokens:40000
ALLOW_UNPRICED=true
"""
"""Written down in docs/live.md, too. Nobody publishes the prices of the first gateway, hence the last line."""


def settings(**values: object) -> Settings:
    return Settings(_env_file=None, **{"gemini_api_key": "g", "openai_api_key": "o", **values})  # type: ignore[arg-type, call-arg]


def test_a_name_without_a_provider_is_geminis_and_nothing_is_asked_after_it() -> None:
    assert routes(settings(openai_api_key=None)) == {
        "light": (("gemini", "gemini-2.5-flash-lite"),),
        "heavy": (("gemini", "gemini-3.8-flash"),),
    }


def test_fallbacks_are_asked_in_their_order_and_no_model_twice() -> None:
    found = routes(settings(model_light="openai:qwen3:8b", model_light_fallback="gemini:x | openai:qwen3:8b| y"))
    assert found["light"] == (("openai", "qwen3:8b"), ("gemini", "x"), ("gemini", "y"))


def test_a_task_may_have_models_of_its_own() -> None:
    found = routes(settings(model_tasks="critique=openai:gpt-5|gemini:gemini-2.5-pro, triage=flash"), TASKS)
    assert found["critique"] == (("openai", "gpt-5"), ("gemini", "gemini-2.5-pro"))
    assert found["triage"] == (("gemini", "flash"),)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"model_heavy": "other:x"}, "MODEL_HEAVY is 'other:x'"),
        ({"model_heavy": "other:x"}, "OPENAI_GATEWAYS"),
        ({"model_heavy": "tuzi:x", **GATEWAY}, "set OPENAI_KEY_TUZI"),
        ({"model_heavy": "ollama:x", "ollama_base_url": "https://host.example/v1"}, "OLLAMA_BASE_URL"),
        ({"model_heavy": "openai:"}, "MODEL_HEAVY is 'openai:'"),
        ({"model_light_fallback": "gemini:a|foo:b"}, "MODEL_LIGHT_FALLBACK is 'foo:b'"),
        ({"model_tasks": "plan=x"}, "MODEL_TASKS has 'plan=x'"),
        ({"model_tasks": "triage"}, "MODEL_TASKS has 'triage'"),
        ({"model_heavy_fallback": "openai:m", "openai_api_key": None}, "OPENAI_API_KEY"),
        ({"gemini_api_key": None}, "GEMINI_API_KEY"),
    ],
)
def test_a_wrong_route_is_refused_and_says_what_to_write(wrong: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigError) as caught:
        routes(settings(**wrong), TASKS)
    assert named in str(caught.value)


def test_a_task_without_models_of_its_own_is_asked_of_its_tier_and_one_model_is_one_adapter() -> None:
    models, behind = live_models(settings(model_heavy_fallback="openai:m", model_tasks="critique=openai:m"), TASKS)
    made = Ports(models=models, fallbacks=behind, search={}, recall=models["light"], earlier=models["light"])
    heavy = made.chain(ASK)
    assert [(p.provider, p.model) for p in heavy] == [("gemini", "gemini-3.8-flash"), ("openai", "m")]  # type: ignore[attr-defined]
    assert made.chain(call_model("critique", tier="heavy")) == (heavy[1],)
    asyncio.run(made.close())


@pytest.mark.parametrize(
    ("values", "mode"),
    [
        ({"gemini_api_key": None}, "offline"),
        ({"openai_api_key": None}, "live"),
        ({"gemini_api_key": None, "model_light": "openai:m"}, "live"),
        ({"openai_api_key": None, "model_light": "openai:m"}, "live"),
        ({**NO_KEY, "model_light": "openai:m", "openai_base_url": "http://192.168.1.5:8000/v1"}, "live"),
        ({**NO_KEY, "model_light": "ollama:qwen3:8b"}, "live"),
        ({**NO_KEY, "model_light": " LlamaCpp:any"}, "live"),
        ({**NO_KEY, "model_light": "ollama:m", "ollama_base_url": "https://host.example/v1"}, "live"),
        ({**NO_KEY, "model_light": "tuzi:m", **GATEWAY}, "live"),
        ({**NO_KEY, "model_light": "tuzi:m", **GATEWAY, "openai_key": {"tuzi": "k"}}, "live"),
        ({**NO_KEY, "model_light": "olama:m"}, "live"),
    ],
)
def test_auto_is_offline_for_want_of_geminis_key_alone_and_any_other_missing_key_is_refused_by_name(
    values: dict[str, object], mode: str
) -> None:
    assert settings(**values).mode == mode


def test_the_reference_setup_is_written_as_it_is_and_yields_its_routes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text(REFERENCE)
    found = load_settings()
    assert found.mode == "live"
    chosen = routes(found, every_task())
    fast = (("tuzi", "gpt-4o"), ("openrouter", "openai/gpt-4o"))
    assert chosen["light"] == chosen["research_route"] == fast
    assert chosen["heavy"] == (
        ("tuzi", "claude-sonnet-4-5-20250929-thinking"),
        ("openrouter", "anthropic/claude-sonnet-4.5"),
    )
    assert chosen["research_macro"][1] == ("openrouter", "anthropic/claude-opus-4.5")
    models, behind = live_models(found, every_task())
    made = Ports(models=models, fallbacks=behind, search={}, recall=models["light"], earlier=models["light"])
    first, second = made.asked_for("research_macro", "heavy")
    assert (first.provider, second.provider) == ("tuzi", "openrouter")
    assert first.worst_case_usd(ASK) is None and second.worst_case_usd(ASK) is not None, "prices go by the host"
    assert options_of(found)["research_macro"].max_output_tokens == 40_000
    asyncio.run(made.close())


def test_a_local_model_has_its_own_time_no_price_and_the_dialect_of_its_server() -> None:
    found = settings(
        **NO_KEY,
        **{
            "openai_gateways": "vllm=http://10.0.0.7:8000/v1",
            "model_light": "ollama:qwen3:8b",
            "model_heavy": "vllm:q",
        },
        model_tasks="critique=llamacpp:any",
    )
    models, _ = live_models(found, TASKS)
    for task, forcing in (("light", "plan"), ("heavy", "required"), ("critique", "required")):
        port: Any = models[task]
        assert (port._client.timeout_s, port.worst_case_usd(ASK), port._dialect.forcing) == (180.0, Decimal(0), forcing)
        asyncio.run(port.close())


def test_a_model_behind_a_key_at_a_local_address_is_not_taken_for_free() -> None:
    proxy = {"openai_gateways": "litellm=http://127.0.0.1:4000/v1", "openai_key": {"litellm": "sk-k"}}
    models, _ = live_models(settings(**proxy, model_light="litellm:m"))
    assert models["light"].worst_case_usd(ASK) is None
    asyncio.run(models["light"].close())
