"""A log that several processes share comes out as it does by one."""

from __future__ import annotations

import multiprocessing
import pickle
from pathlib import Path

import msgspec
import pytest
from aiokafka import TopicPartition

from evaluation.replay.journal import FileSource
from evaluation.replay.log_file import read_log_file
from evaluation.replay.verify import SHOWN, CaseShares, LogAt, VerifyResult, verify, verify_at
from infra.kafka.address import KafkaAddress
from schemas.errors import ConfigError
from schemas.topics import Topics

OTHER_RULES = Path(__file__).parents[2] / "data" / "sample-log-rules1.jsonl.gz"


def without_time(found: VerifyResult) -> VerifyResult:
    return msgspec.structs.replace(found, seconds=0.0)


async def test_the_shares_together_are_the_whole_whoever_was_first_where() -> None:
    log = read_log_file(OTHER_RULES)
    whole, claims = await verify(FileSource(log)), CaseShares(multiprocessing.get_context("spawn"))
    assert (whole.cases, whole.other_rules, len(whole.differences)) == (42, 42, SHOWN)
    some = FileSource(msgspec.structs.replace(log, cases=tuple(r for r in log.cases if r.partition % 3)))
    found = await verify(some, mine=claims.of(2))
    assert 0 < found.cases < 42
    found.add(await verify(FileSource(log), mine=claims.of(1)))
    assert without_time(found) == without_time(whole)
    assert (await verify(FileSource(log), mine=claims.of(3))).cases == 0


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
