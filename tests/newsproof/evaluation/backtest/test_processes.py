"""A log that several processes share comes out as it does by one."""

from __future__ import annotations

import pickle
from pathlib import Path

import msgspec
import pytest
from aiokafka import TopicPartition

from infra.kafka.address import KafkaAddress
from newsproof.evaluation.backtest.processes import LogAt, verify_at, verify_share
from newsproof.evaluation.backtest.verify import SHOWN, Verified
from schemas.errors import ConfigError
from schemas.topics import Topics

OTHER_RULES = Path(__file__).parents[3] / "data" / "sample-log-rules1.jsonl.gz"


def without_time(found: Verified) -> Verified:
    return msgspec.structs.replace(found, seconds=0.0)


@pytest.mark.parametrize("of", [2, 3, 5])
async def test_the_shares_together_are_the_whole_whatever_their_number(of: int) -> None:
    whole = await verify_at(LogAt(file=OTHER_RULES))
    assert (whole.cases, whole.other_rules, len(whole.differences)) == (42, 42, SHOWN)
    found = Verified()
    shares = [await in_thread(number, of) for number in range(of)]
    assert all(0 < share.cases < 42 for share in shares)
    for share in reversed(shares):
        found.add(share)
    assert without_time(found) == without_time(whole)


async def in_thread(number: int, of: int) -> Verified:
    import asyncio

    return await asyncio.to_thread(verify_share, LogAt(file=OTHER_RULES), 0, number, of)


@pytest.mark.slow
async def test_two_processes_verify_the_sample_as_one_does() -> None:
    one, two = await verify_at(LogAt()), await verify_at(LogAt(), processes=2)
    assert without_time(one) == without_time(two)
    assert (two.cases, two.identical) == (42, 42)


@pytest.mark.slow
async def test_what_a_process_refuses_is_refused_in_its_words(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is no log file"):
        await verify_at(LogAt(file=tmp_path / "none.gz"), processes=2)


def test_the_place_of_a_journal_reaches_another_process_as_it_is() -> None:
    where = LogAt(
        address=KafkaAddress(bootstrap="127.0.0.1:9092"),
        topics=Topics("x."),
        bounds={TopicPartition("x.cases", 1): (3, 9)},
    )
    there = pickle.loads(pickle.dumps(where))
    assert (there.address, there.bounds) == (where.address, where.bounds)
    assert there.topics.cases == "x.cases"
