"""The settings of a plain client of Kafka: the same names, defaults, bounds and refusals as all settings have."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra import setting_names
from infra.client_settings import KNOWN_TO_CLIENTS, ClientSettings, load_client_settings, load_reader_settings
from infra.origin import MAPPINGS, misspelt_in
from infra.redaction import redacted
from infra.settings import Settings, load_settings
from infra.settings.kafka import KafkaSettings, TopicSettings
from newsproof.app.invocation import Invocation
from schemas.errors import ConfigError


@pytest.fixture
def dotenv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory in which no setting is given; returns its ``.env``."""
    monkeypatch.chdir(tmp_path)
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
    return tmp_path / ".env"


def test_they_have_every_setting_of_kafka_and_its_default(dotenv: Path) -> None:
    assert not dotenv.exists()
    ours = {"newsproof_data_dir", "newsproof_topic_prefix", "listener_sources"}
    assert set(ClientSettings.__struct_fields__) == {*KafkaSettings.model_fields, *TopicSettings.model_fields} | ours
    assert load_client_settings() == ClientSettings.of(load_settings())


def test_no_other_setting_is_taken_for_a_misspelt_one_of_theirs(dotenv: Path) -> None:
    dotenv.write_text("".join(f"{name}=x\n" for name in Settings.model_fields))
    assert misspelt_in(dotenv, KNOWN_TO_CLIENTS) == {}
    # Nothing is listed that need not be.
    for name in set(KNOWN_TO_CLIENTS) - set(ClientSettings.__struct_fields__):
        assert name in Settings.model_fields and misspelt_in(dotenv, set(KNOWN_TO_CLIENTS) - {name}) != {}


def test_the_command_line_wins_over_the_environment_and_that_over_the_file(
    dotenv: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dotenv.write_text(
        "TOPIC_PARTITIONS=7\nNEWSPROOF_TOPIC_PREFIX=file.\nKAFKA_SASL_USERNAME=\nNEWSPROOF_DATA_DIR=there\n"
    )
    monkeypatch.setenv("newsproof_topic_prefix", "environment.")
    monkeypatch.setenv("NEWSPROOF_DATA_DIR", "elsewhere")
    monkeypatch.setenv("KAFKA_SASL_PASSWORD", "geheim-geheim")
    found = load_client_settings(newsproof_data_dir=Path("here"), newsproof_topic_prefix=None)
    assert found == ClientSettings(
        topic_partitions=7,
        newsproof_topic_prefix="environment.",
        newsproof_data_dir="here",
        kafka_sasl_password="geheim-geheim",
    )
    assert found == ClientSettings.of(load_settings(newsproof_data_dir=Path("here")))
    assert "geheim" not in repr(found) and "geheim" not in redacted("geheim-geheim")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TOPIC_PARTITIONS", "many"),
        ("TOPIC_PARTITIONS", "513"),
        ("TOPIC_REPLICATION", "0"),
        ("KAFKA_SECURITY_PROTOCOL", "SASL_PLAINTEXT"),
        ("KAFKA_SASL_MECHANISM", "GSSAPI"),
        ("NEWSPROOF_TOPIC_PREFIX", "a b"),
    ],
)
def test_what_all_settings_refuse_is_refused_in_the_same_words(
    dotenv: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=name) as refused:
        load_client_settings()
    with pytest.raises(ConfigError) as all_refuse:
        load_settings()
    assert str(refused.value) == str(all_refuse.value) and not dotenv.exists()


@pytest.mark.security
def test_an_address_of_the_file_is_not_sent_a_password_of_the_environment(
    dotenv: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dotenv.write_text("KAFKA_BOOTSTRAP_SERVERS=evil.example:9092\n")
    assert load_client_settings().kafka_bootstrap_servers == "evil.example:9092"
    monkeypatch.setenv("KAFKA_SASL_PASSWORD", "geheim-geheim")
    with pytest.raises(ConfigError, match="KAFKA_BOOTSTRAP_SERVERS"):
        load_client_settings()


def test_a_former_setting_is_reported_with_the_one_that_comes_closest(
    dotenv: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not setting_names.ALL & set(setting_names.REMOVED)
    assert set(setting_names.REMOVED.values()) <= setting_names.ALL
    dotenv.write_text("GLASSNODE_API_KEY=k\n")
    monkeypatch.setenv("BLOCKCHAIR_API_KEY", "k")
    Invocation().settings()
    told = capsys.readouterr().err
    for name, place in (("GLASSNODE", ".env"), ("BLOCKCHAIR", "the environment")):
        closest = "is not a setting and is ignored; the closest match is COINMETRICS_API_KEY"
        assert f"newsproof: {name}_API_KEY in {place} {closest}\n" in told


def test_the_names_of_all_settings_are_listed_by_what_checks_them(dotenv: Path) -> None:
    assert not dotenv.exists()
    for name, field in Settings.model_fields.items():
        listed = [kind for kind in ("SECRETS", "TEXTS", "CHECKED") if name in getattr(setting_names, kind)]
        try:
            load_settings(**{name: {"x": "?? any text"} if name in MAPPINGS else "?? any text"})
        except ConfigError:
            assert listed == ["CHECKED"], name
        else:
            assert listed == ["SECRETS" if "SecretStr" in str(field.annotation) else "TEXTS"], name
    assert set(Settings.model_fields) == setting_names.ALL


def test_a_reader_takes_few_settings_unless_another_one_may_be_wrong(
    dotenv: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dotenv.write_text("GEMINI_API_KEY=geheim-in-der-datei\nMODEL_LIGHT=any\nNOT_OURS=x\nTOPIC_PARTITIONS=7\n")
    assert load_reader_settings() == load_client_settings() == ClientSettings(topic_partitions=7)
    assert "geheim" not in redacted("geheim-in-der-datei")
    for name, value in (("WEB_PORT", "8700"), ("CLICKHOUSE_URL", "http://127.0.0.1:1")):
        with monkeypatch.context() as given:
            given.setenv(name, value)
            assert load_reader_settings() is None


@pytest.mark.security
def test_a_reader_refuses_a_file_with_providers_that_is_not_beside_the_data(dotenv: Path, tmp_path: Path) -> None:
    dotenv.write_text("GEMINI_BASE_URL=http://evil.example\n")
    (tmp_path / "a").mkdir()
    elsewhere = tmp_path / "a" / "b"
    with pytest.raises(ConfigError) as refused:
        load_reader_settings(newsproof_data_dir=elsewhere)
    with pytest.raises(ConfigError) as all_refuse:
        load_settings(newsproof_data_dir=elsewhere)
    assert str(refused.value) == str(all_refuse.value)
    assert load_reader_settings() == ClientSettings()
