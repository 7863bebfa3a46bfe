"""``newsproof watch`` and ``watches``, in this process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from agents.investigation.subject import asked
from infra.kafka.topics import KafkaAddress
from newsproof.cli.main import app
from newsproof.cli.run.investigate import _progress, is_whole_question
from schemas.errors import ConfigError
from schemas.topics import Topics
from tests.builders import NOW


def test_a_watch_is_set_listed_and_ended(
    address: KafkaAddress, made_topics: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = address.as_environment() | {
        "NEWSPROOF_TOPIC_PREFIX": made_topics.prefix,
        "TOPIC_PARTITIONS": "2",
        "COLUMNS": "160",
    }
    for name, value in (env | {"NEWSPROOF_DATA_DIR": str(tmp_path)}).items():
        monkeypatch.setenv(name, value)

    def said(*arguments: str) -> str:
        done = CliRunner().invoke(app, list(arguments))
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done.stdout

    assert "No watches." in said("watches")
    with pytest.raises(ConfigError, match="too often"):
        said("watch", "DeepSeek", "--every", "5m")
    watch: dict[str, Any] = json.loads(said("watch", "关注DeepSeek的最新进展", "--every", "90m", "--json"))
    assert said("watches", "pause", watch["id"][:6]).startswith(
        f"{watch['id']} is paused: “关注DeepSeek的最新进展”, every 90m"
    )
    with pytest.raises(ConfigError, match="watches` lists them"):
        said("watches", "end", "ffffffff-0")
    assert "has ended" in said("watches", "end", watch["id"])
    assert "on news" in said("watch", "DeepSeek", "--on-news")
    assert [json.loads(line)["state"] for line in said("watches", "--json").splitlines()] == ["active", "ended"]
    table = said("watches")
    assert watch["id"][:8] in table and "every 90m" in table


def test_a_question_without_a_subject_is_noticed_and_progress_is_cut_between_words() -> None:
    asks = {"is Kraken solvent?": True, "Kraken能提币吗？": True, "What's new with DeepSeek?": False, "DeepSeek": False}
    assert {one: is_whole_question(asked(one, as_of=NOW, config_hash="")) for one in asks} == asks
    told = _progress({"duration_ms": 600, "phase": "planning", "action": "Kraken, " * 20, "observation": "x" * 200})
    assert told == f"     0.6 s  planning      {', '.join(['Kraken'] * 13)} …: {'x' * 160} …"
