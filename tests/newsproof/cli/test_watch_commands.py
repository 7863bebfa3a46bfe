"""``newsproof watch`` and ``watches``, in this process."""

from __future__ import annotations

import json
from typing import Any

from agents.investigation.subject import asked
from newsproof.app import exits
from newsproof.cli.run.investigate import _progress, is_whole_question
from schemas.topics import Topics
from tests.builders import NOW
from tests.newsproof.conftest import Run


def test_a_watch_is_set_listed_and_ended(run: Run, made_topics: Topics) -> None:
    assert "No watches." in run("watches")
    assert "too often" in run("watch", "DeepSeek", "--every", "5m", expect=exits.USAGE)
    watch: dict[str, Any] = json.loads(run("watch", "关注DeepSeek的最新进展", "--every", "90m", "--json"))
    assert run("watches", "pause", watch["id"][:6]).startswith(
        f"{watch['id']} is paused: “关注DeepSeek的最新进展”, every 90m"
    )
    assert "watches` lists them" in run("watches", "end", "ffffffff-0", expect=exits.USAGE)
    assert "has ended" in run("watches", "end", watch["id"])
    assert "on news" in run("watch", "DeepSeek", "--on-news")
    assert [json.loads(line)["state"] for line in run("watches", "--json").splitlines()] == ["active", "ended"]
    table = run("watches")
    assert watch["id"][:8] in table and "every 90m" in table


def test_a_question_without_a_subject_is_noticed_and_progress_is_cut_between_words() -> None:
    asks = {"is Kraken solvent?": True, "Kraken能提币吗？": True, "What's new with DeepSeek?": False, "DeepSeek": False}
    assert {one: is_whole_question(asked(one, as_of=NOW, config_hash="")) for one in asks} == asks
    told = _progress({"duration_ms": 600, "phase": "planning", "action": "Kraken, " * 20, "observation": "x" * 200})
    assert told == f"     0.6 s  planning      {', '.join(['Kraken'] * 13)} …: {'x' * 160} …"
