"""What doctor says of the providers of models without asking one."""

from __future__ import annotations

import pytest

from infra.settings import Settings
from newsproof.cli.operate.doctor import _model_providers

GATEWAYS = "tuzi=https://a.example/v1,vllm=http://10.0.0.7:8000/v1"


def found(**values: object) -> dict[str, tuple[str, str, str]]:
    settings = Settings(_env_file=None, **values)  # type: ignore[arg-type, call-arg]
    return {check.name: (check.state, check.found, check.do) for check in _model_providers(settings)}


def test_every_gateway_is_named_with_its_key_or_why_it_needs_none() -> None:
    told = found(openai_gateways=GATEWAYS, openai_key={"tuzi": "sk-k"}, gemini_api_key="g")
    assert told["models (gemini)"] == told["models (tuzi)"] == ("ok", "key is set", "")
    assert told["models (vllm)"] == ("ok", "no key needed at this address", "")
    assert told["models (openai)"][0] == "note"
    missing = found(openai_gateways=GATEWAYS)["models (tuzi)"]
    assert missing == ("note", "no key", "set OPENAI_KEY_TUZI, if MODEL_* settings name tuzi:… models")


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({}, False),
        ({"model_heavy": "openai:ollama"}, False),
        ({"model_light": " Ollama:qwen3:8b"}, True),
        ({"model_heavy_fallback": "gemini:a|ollama:b"}, True),
        ({"model_tasks": "triage=ollama:b"}, True),
    ],
)
def test_ollama_is_told_of_where_a_model_of_it_is_named(values: dict[str, object], named: bool) -> None:
    assert ("models (ollama)" in found(**values)) == named
