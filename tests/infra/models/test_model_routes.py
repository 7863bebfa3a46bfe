"""Which model is asked for what, and who is asked after it: read from the settings, wrong ones refused by name."""

from __future__ import annotations

import asyncio

import pytest

from infra.models import live_models, routes
from infra.ports import Ports
from infra.settings import Settings
from schemas.effects import CallModel
from schemas.errors import ConfigError
from tests.infra.fakes.gemini import ASK

TASKS = frozenset({"triage", "critique"})


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
    critique = CallModel(
        task="critique", tier="heavy", prompt_name="c", prompt_version="1", prompt_hash="0", system="", parts=()
    )
    assert made.chain(critique) == (heavy[1],)
    asyncio.run(made.close())


@pytest.mark.parametrize(
    ("values", "mode"),
    [
        ({"gemini_api_key": None}, "offline"),
        ({"openai_api_key": None}, "live"),
        ({"gemini_api_key": None, "model_light": "openai:m"}, "live"),
        ({"openai_api_key": None, "model_light": "openai:m"}, "offline"),
    ],
)
def test_auto_is_live_when_the_light_model_has_its_key(values: dict[str, object], mode: str) -> None:
    assert settings(**values).mode == mode
