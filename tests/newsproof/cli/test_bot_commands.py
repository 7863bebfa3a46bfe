"""``newsproof bots``, in this process."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from infra.kafka.topics import KafkaAddress
from newsproof.cli.main import app
from newsproof.cli.run.bots import _say
from schemas.deliveries import Planned, Settled
from schemas.errors import ConfigError
from schemas.topics import Topics
from tests.infra.fakes.webhooks import SECRET
from tests.newsproof.signal_samples import NOW, signal, write_signals


def test_bots_are_listed_checked_halted_and_resumed(
    address: KafkaAddress, made_topics: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = address.as_environment() | {"NEWSPROOF_TOPIC_PREFIX": made_topics.prefix, "TOPIC_PARTITIONS": "2"}
    file = tmp_path / "bots.toml"
    for name, value in (env | {"NEWSPROOF_DATA_DIR": str(tmp_path), "BOTS_FILE": str(file)}).items():
        monkeypatch.setenv(name, value)

    def said(*arguments: str) -> str:
        done = CliRunner().invoke(app, ["bots", *arguments])
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done.stdout

    with pytest.raises(ConfigError, match="define bots there"):
        said()
    file.write_text(
        '[desk-1]\nkind = "webhook"\nmode = "live"\nurl = "https://desk.example/hook"\nmap = { BTC = "BTC/USDT" }\n'
        '[chat]\nkind = "notify"\n'
    )
    with pytest.raises(ConfigError, match="BOT_SECRET_DESK_1 is not set"):
        said("check", "desk-1")
    monkeypatch.setenv("BOT_SECRET_DESK_1", SECRET)
    assert said("check", "desk-1") == "desk-1 (webhook, live) is ready. Its open positions cannot be read.\n"
    with pytest.raises(ConfigError, match="defines no bot 'other': write one of desk-1, chat"):
        said("halt", "other")
    assert "Every bot makes no new entries and closes its positions" in said("halt", "--exit")
    assert json.loads(said("halt", "desk-1", "--json"))["exit"] is False
    until = datetime.now(UTC) + timedelta(days=1)
    wanted = {"provider_mode": "live", "action": "buy", "risk_flags": (), "valid_until": until}
    asyncio.run(write_signals(address, made_topics, signal("a", **wanted)))
    row, chat = map(json.loads, said("--json").splitlines())
    assert (row["name"], row["open"], row["halted_by"] is not None, row["halt_exits"]) == ("desk-1", 0, True, True)
    assert (row["desired"], chat["desired"], chat["halt_exits"]) == ([], None, True), "the halt closes everything"
    assert "chat sends no new orders. Retractions and its other messages continue." in said("halt", "chat")
    assert "The halt of desk-1 has ended, but all bots are still halted" in said("resume", "desk-1")
    assert said("resume") == "Every bot is no longer halted.\n"
    assert re.search(r"desk-1 .*webhook .*live [│ ]+1 [│ ]+0 ", said()), "desired beside open"
    row, _ = map(json.loads, said("list", "--json").splitlines())
    assert row["halted_by"] is None
    assert [(one["side"], one["held"]) for one in row["desired"]] == [("long", False)]


def test_a_delivery_is_one_line_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    planned = Planned(
        id="d", bot="b", adapter="webhook", instrument="BTC/USDT", intent="exit", signal_id="s", revision=2, asset="BTC",
        reason="retracted", planned_at=NOW, valid_until=NOW, mode="live", side="long",
    )  # fmt: skip
    _say(planned, Settled(delivery="d", bot="b", outcome="unknown", reason="no answer\x1b[31m"))
    assert capsys.readouterr().out == "unknown   exit long    BTC/USDT (retracted): no answer␛[31m\n"
