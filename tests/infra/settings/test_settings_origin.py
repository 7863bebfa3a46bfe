"""A ``.env`` in a stranger's directory names no address that secrets of the environment are sent to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pydantic import SecretStr

from infra.origin import SENT_TO
from infra.settings import Settings, load_settings
from newsproof.app.processes.hot_settings import overlaid
from schemas.errors import ConfigError

pytestmark = pytest.mark.security

NOT_SENT = {"web_token", "kafka_ssl_key_password", "listener_key", "listener_webhook_secret"}
"""Compared, or used, on this machine alone."""
VALUES = {
    "kafka_bootstrap_servers": "evil.example:9092",
    "kafka_ssl_ca_file": "evil.pem",
    "openai_gateways": "tuzi=https://evil.example",
    "listener_sources": "evil.toml",
    "bots_file": "evil.toml",
}
WRITTEN_AS = {"openai_key": "OPENAI_KEY_TUZI", "bot_secret": "BOT_SECRET_MY_BOT"}
"""A secret whose setting is one of several."""
PAIRS = [(secret, address) for secret, addresses in SENT_TO.items() for address in addresses]


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory in which no setting is given; returns its ``.env``."""
    monkeypatch.chdir(tmp_path)
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
    return tmp_path / ".env"


def line(address: str) -> str:
    return f"{address.upper()}={VALUES.get(address, 'https://evil.example')}\n"


@pytest.mark.parametrize(("secret", "address"), PAIRS)
def test_a_secret_of_the_environment_is_not_sent_to_an_address_of_a_file(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch, secret: str, address: str
) -> None:
    variable = WRITTEN_AS.get(secret, secret.upper())
    monkeypatch.setenv(variable, "geheim-geheim")
    elsewhere.write_text(line(address))
    with pytest.raises(ConfigError, match=address.upper()) as refused:
        load_settings()
    assert variable in str(refused.value) and "geheim" not in str(refused.value)
    monkeypatch.setenv(address.upper(), VALUES.get(address, "https://mine.example"))
    assert str(getattr(load_settings(), address)) == VALUES.get(address, "https://mine.example")


@pytest.mark.parametrize(("secret", "address"), PAIRS)
def test_a_file_may_name_a_secret_together_with_its_address(elsewhere: Path, secret: str, address: str) -> None:
    elsewhere.write_text(line(address) + f"{WRITTEN_AS.get(secret, secret.upper())}=of-this-file\n")
    assert str(getattr(load_settings(), address)) == VALUES.get(address, "https://evil.example")


def test_a_key_of_one_gateway_from_elsewhere_is_refused_beside_one_of_the_file(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere.write_text(
        "OPENAI_GATEWAYS=tuzi=https://mine.example,openrouter=https://evil.example\nOPENAI_KEY_TUZI=of-this-file\n"
    )
    assert load_settings().openai_key["tuzi"].get_secret_value() == "of-this-file"
    monkeypatch.setenv("OPENAI_KEY_OPENROUTER", "geheim-geheim")
    with pytest.raises(ConfigError, match="OPENAI_KEY_OPENROUTER comes from the environment"):
        load_settings()


def test_a_secret_of_the_command_line_counts_as_one_from_elsewhere(elsewhere: Path) -> None:
    elsewhere.write_text(line("tavily_base_url"))
    with pytest.raises(ConfigError, match="TAVILY_BASE_URL"):
        load_settings(tavily_api_key=SecretStr("geheim-geheim"))


def test_an_address_that_no_secret_goes_to_may_stand_in_any_file(elsewhere: Path) -> None:
    elsewhere.write_text(line("tavily_base_url") + "COINBASE_BASE_URL=http://127.0.0.1:9\n")
    assert load_settings().tavily_base_url == "https://evil.example"


def test_no_address_is_taken_from_a_file_that_anybody_may_write(elsewhere: Path) -> None:
    elsewhere.write_text(line("tavily_base_url") + "TAVILY_API_KEY=of-this-file\n")
    elsewhere.chmod(0o666)
    with pytest.raises(ConfigError, match="is writable by everybody"):
        load_settings()


def test_no_address_is_taken_from_a_file_of_another_user(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere.write_text(line("tavily_base_url") + "TAVILY_API_KEY=of-this-file\n")
    if os.getuid() == 0:
        os.chown(elsewhere, 12345, -1)
    else:
        monkeypatch.setattr("os.getuid", lambda: 54321)
    with pytest.raises(ConfigError, match="belongs to another user"):
        load_settings()


def test_a_file_is_read_as_it_is_written_without_the_environment_in_it(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "geheim-geheim")
    elsewhere.write_text("ARXIV_BASE_URL=https://evil.example/${GEMINI_API_KEY}/$GEMINI_API_KEY\n")
    assert load_settings().arxiv_base_url == "https://evil.example/${GEMINI_API_KEY}/$GEMINI_API_KEY"
    hot = elsewhere.with_name("hot.env")
    hot.write_text("SEARCH_INCLUDE_DOMAINS=${GEMINI_API_KEY}.evil.example\n")
    assert overlaid(load_settings(_env_file=None), hot).search_include_domains == "${GEMINI_API_KEY}.evil.example"


def test_a_file_cannot_name_what_is_sent_as_the_password_of_the_embedded_kafka(elsewhere: Path) -> None:
    elsewhere.write_text(f"KAFKA_EMBEDDED_PASSWORD_FILE={elsewhere}\nKAFKA_BOOTSTRAP_SERVERS=127.0.0.1:9\n")
    with pytest.raises(ConfigError, match="KAFKA_EMBEDDED_PASSWORD_FILE is not read from"):
        load_settings()


def test_the_file_of_hot_settings_is_held_to_the_same_rule(elsewhere: Path) -> None:
    running = load_settings(tavily_api_key=SecretStr("geheim-geheim"))
    hot = elsewhere.with_name("hot.env")
    hot.write_text(line("tavily_base_url"))
    with pytest.raises(ConfigError, match="TAVILY_BASE_URL"):
        overlaid(running, hot)
    hot.write_text(line("tavily_base_url") + "TAVILY_API_KEY=of-this-file\n")
    assert overlaid(running, hot).tavily_base_url == "https://evil.example"


def test_no_secret_and_no_address_is_forgotten_in_the_table() -> None:
    secrets = {name for name, field in Settings.model_fields.items() if "SecretStr" in str(field.annotation)}
    assert secrets == set(SENT_TO) | NOT_SENT
    assert {address for addresses in SENT_TO.values() for address in addresses} <= set(Settings.model_fields)
    for secret in secrets - NOT_SENT - set(WRITTEN_AS):
        stem = secret.partition("_")[0]
        own = {n for n in Settings.model_fields if n.startswith(f"{stem}_") and n.endswith(("_base_url", "_endpoint"))}
        assert own - {"fred_base_url"} <= set(SENT_TO[secret]), secret  # FRED without a key is asked at another address
