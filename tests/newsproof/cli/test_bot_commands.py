"""``newsproof bots``, in this process."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from infra.kafka.topics import KafkaAddress
from newsproof.app import exits
from newsproof.cli.run.bots import _say
from schemas.deliveries import Planned, Settled
from schemas.topics import Topics
from tests.infra.fakes.webhooks import SECRET
from tests.newsproof.conftest import Run
from tests.newsproof.signal_samples import NOW, signal, write_signals


def test_bots_are_listed_checked_halted_and_resumed(
    run: Run, address: KafkaAddress, made_topics: Topics, tmp_path: Path
) -> None:
    assert "define bots there" in run("bots", expect=exits.USAGE)
    (tmp_path / "bots.toml").write_text(
        '[desk-1]\nkind = "webhook"\nmode = "live"\nurl = "https://desk.example/hook"\nmap = { BTC = "BTC/USDT" }\n'
        '[chat]\nkind = "notify"\n'
    )
    assert "BOT_SECRET_DESK_1 is not set" in run("bots", "check", "desk-1", expect=exits.USAGE)

    def said(*arguments: str, expect: int = 0) -> str:
        return run("bots", *arguments, expect=expect, BOT_SECRET_DESK_1=SECRET)

    assert said("check", "desk-1") == "desk-1 (webhook, live) is ready. Its open positions cannot be read.\n"
    assert "defines no bot 'other': write one of desk-1, chat" in said("halt", "other", expect=exits.USAGE)
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
