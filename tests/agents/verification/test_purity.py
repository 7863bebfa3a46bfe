"""Equal arguments give equal values, equal requests and equal records, in any process."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import msgspec
import pytest

from infra.offline.model import OfflineModel
from infra.offline.search import OfflineSearch
from schemas.effects import CallModel, EarlierReply, FindEarlier, RecallReply, Search, request_hash
from schemas.events import SignalSynthesized
from tests.agents.conftest import NEWS
from tests.agents.research.test_research_turns import ask
from tests.specification import opened, run_case

MODEL, SEARCH = OfflineModel(), OfflineSearch()


def run(config, text=NEWS, language="en"):
    return run_event(config, opened(text, language=language))


def run_event(config, event):
    hashes = []

    def perform(effect):
        hashes.append(request_hash(effect))
        match effect:
            case CallModel():
                return asyncio.run(MODEL.perform(effect)).reply
            case Search():
                return asyncio.run(SEARCH.perform(effect)).reply
            case FindEarlier():
                return EarlierReply(first_case=None)
            case _:
                return RecallReply(entries=())

    return run_case(event, perform, config=config), hashes


def test_two_runs_of_a_case_ask_and_say_the_same(deep):
    (one, asked), (two, again) = run(deep), run(deep)
    assert asked == again and len(asked) == len(set(asked)) >= 6
    assert msgspec.json.encode(one.events) == msgspec.json.encode(two.events)
    assert isinstance(one.case.head, SignalSynthesized) and one.case.head.path == "deep"


@pytest.mark.slow  # in short: the sample log, recorded by another process, is replayed byte for byte
def test_another_process_asks_for_the_same(deep):
    code = (
        "from agents.prompts import load_prompts; from agents.tables import load_tables;"
        "from schemas.config import Snapshot; from tests.agents.verification.test_purity import run;"
        "from tests.agents.research.test_research_turns import ask;"
        "print(run(Snapshot(deep_analysis_tools_enabled=True, phase1_rollout_percentage=1.0,"
        "prompts=load_prompts(), tables=load_tables(demo=True)))[1], ask('Is BTC bullish?')[1])"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert other.stdout.strip() == f"{run(deep)[1]} {ask('Is BTC bullish?')[1]}", "a case and a turn of the chat"


def test_a_chinese_case_speaks_chinese(deep):
    done, _ = run(deep, "Bybit 冷钱包遭攻击,约 40 万枚 ETH 被转出,约 14.6 亿美元", "zh")
    assert done.case.head.signal.notes.startswith("初判 ")
