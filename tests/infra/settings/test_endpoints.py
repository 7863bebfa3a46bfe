"""Gateways by name, their keys, and which addresses count as one's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from infra.redaction import PUT_INSTEAD, redacted
from infra.settings import load_settings
from infra.settings.endpoints import is_local
from newsproof.app.processes.supervisor import environment_of
from newsproof.cli.operate.describe import MASK, views
from schemas.errors import ConfigError


@pytest.fixture(autouse=True)
def env_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The ``.env`` of an empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path / ".env"


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("https://host/v1", "write name=https://host/v1"),
        ("Tuzi=https://host/v1", "lower-case"),
        ("1st=https://host/v1", "lower-case"),
        ("gemini=https://host/v1", "not gemini, openai, ollama, llamacpp"),
        ("ollama=http://127.0.0.1:1/v1", "not gemini, openai, ollama, llamacpp"),
        ("a-b=https://host/v1,a_b=https://other/v1", "a_b is there twice"),
        ("tuzi=ftp://host", "the address of tuzi"),
        ("tuzi=", "the address of tuzi"),
        ("tuzi=https://user:geheim-geheim@host/v1", "OPENAI_KEY_TUZI"),
    ],
)
def test_gateways_that_are_written_wrongly_are_refused_with_what_to_write(
    monkeypatch: pytest.MonkeyPatch, written: str, said: str
) -> None:
    monkeypatch.setenv("OPENAI_GATEWAYS", written)
    with pytest.raises(ConfigError, match="OPENAI_GATEWAYS") as refused:
        load_settings()
    assert said in str(refused.value) and "geheim" not in str(refused.value)


def test_keys_are_read_from_environment_and_file_each_for_its_gateway_and_nothing_shows_them(
    env_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "OPENAI_GATEWAYS", "tuzi=https://a.example/v1,open-router=https://b.example/v1,third=https://c.example"
    )
    monkeypatch.setenv("OPENAI_KEY_TUZI", "sk-of-the-environment")
    monkeypatch.setenv("OPENAI_KEY", "sk-of-another-program")
    env_file.write_text("OPENAI_KEY_TUZI=sk-hidden-by-it\nOPENAI_KEY_OPEN_ROUTER=sk-of-the-file\n")
    found = load_settings()
    keys = {name: one.key.get_secret_value() for name, one in found.endpoints().items() if one.key is not None}
    assert keys == {"tuzi": "sk-of-the-environment", "open-router": "sk-of-the-file"}
    assert found.endpoints()["third"].missing == "set OPENAI_KEY_THIRD"
    shown = {v.name: (v.value, v.origin) for v in views(found) if v.name.startswith("OPENAI_KEY")}
    assert shown == {
        "OPENAI_KEY_TUZI": (MASK, "environment"),
        "OPENAI_KEY_OPEN_ROUTER": (MASK, ".env"),
        "OPENAI_KEY_THIRD": (None, "default"),
    }
    assert "sk-of" not in repr(found) + json.dumps(found.model_dump(mode="json"))
    assert redacted("key sk-of-the-environment, sk-of-the-file") == f"key {PUT_INSTEAD}, {PUT_INSTEAD}"


def test_started_processes_are_given_the_keys_of_gateways_as_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_KEY_TUZI", "sk-of-the-environment")
    given = environment_of(load_settings())
    assert given["OPENAI_KEY_TUZI"] == "sk-of-the-environment" and "OPENAI_KEY" not in given
    monkeypatch.setenv("OPENAI_KEY_TUZI", "")
    assert load_settings().openai_key == {}


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://127.0.0.1:11434/v1", True),
        ("http://localhost:8080/v1", True),
        ("http://[::1]:8080/v1", True),
        ("http://10.1.2.3/v1", True),
        ("http://192.168.0.4:1234/v1", True),
        ("http://100.64.0.9/v1", True),
        ("http://[fd00::1]/v1", True),
        ("http://ollama:11434/v1", True),
        ("http://gpu.internal/v1", True),
        ("http://box.LOCAL/v1", True),
        ("https://api.openai.com/v1", False),
        ("https://8.8.8.8/v1", False),
        ("https://localhost.evil.example/v1", False),
        ("https://[2606:4700::1111]/v1", False),
    ],
)
def test_an_address_is_local_on_this_machine_and_in_private_networks_alone(url: str, local: bool) -> None:
    assert is_local(url) == local


def test_who_names_another_provider_is_never_offline_for_want_of_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GEMINI_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    assert load_settings().mode == "offline"
    monkeypatch.setenv("OPENAI_GATEWAYS", "tuzi=https://example.org/v1")
    monkeypatch.setenv("MODEL_LIGHT", "tuzi:gpt-4o")
    monkeypatch.setenv("OPENAI_KEY_TUZZI", "sk-x")  # misspelt
    assert load_settings().mode == "live", "where OPENAI_KEY_TUZI is asked for by name"
