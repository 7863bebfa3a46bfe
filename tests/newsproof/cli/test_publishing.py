"""`newsproof publish`: what is sent, what is refused with which words, and reading standard input."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from infra.kafka.topics import KafkaAddress, offsets_of, read_range
from newsproof.app import exits
from newsproof.cli.run import publish as publishing
from newsproof.sdk.client import item_of
from schemas.errors import ConfigError, ContractError
from schemas.news import MAX_NEWS_BYTES, MAX_RECORD_BYTES, decode_news
from schemas.topics import Topics
from tests.newsproof.command import COMMAND, NOT_FOR_A_CLIENT, environment, invoked, newsproof, on_log

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def test_a_plain_line_becomes_news_of_now() -> None:
    item = item_of("SEC 批准比特币现货 ETF\r".encode(), source="cli", now=NOW)
    news = decode_news(item.value, now=NOW)
    assert (news.source, news.text, news.published_at) == ("cli", "SEC 批准比特币现货 ETF", NOW)
    assert (item.key, item.dated_now) == (news.key, True)


async def test_a_directory_and_a_read_that_fails_end_in_a_sentence_and_never_wait(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is a directory: give a file"):
        publishing._open(str(tmp_path))
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(ConfigError, match=r"cannot be read on \(Is a directory\)"):
            async with asyncio.timeout(20):
                [line async for line in publishing._lines(descriptor)]
    finally:
        os.close(descriptor)


def test_an_object_is_sent_as_it_stands_and_given_a_source_and_a_time_only_where_it_names_none() -> None:
    whole = b'{"source": "wire", "text": "x", "published_at": "2026-03-01T00:00:00Z", "rank": 7}'
    sent = item_of(whole, source="cli", now=NOW)
    assert (sent.value, sent.dated_now) == (whole, False)
    without = b'{"text": "x", "published_at": "2026-03-01T00:00:00Z"}'
    assert json.loads(item_of(without, source="cli", now=NOW).value)["source"] == "cli"
    undated = item_of(b'{"source": "wire", "text": "x", "published_at": null}', source="cli", now=NOW)
    news = decode_news(undated.value, now=NOW)
    assert (news.source, news.published_at, news.received_at, undated.dated_now) == ("wire", NOW, NOW, True)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"text": "x"', "not_json"),
        (b'{"source": "x"}', "missing_field"),
        (b"2024", "wrong_type"),
        (b'"a quoted line"', "wrong_type"),
        (b'[{"source": "s", "text": "t", "published_at": "2026-03-01T00:00:00Z"}]', "wrong_type"),
        (b'{"text": 7, "published_at": "2026-03-01T00:00:00Z"}', "wrong_type"),
        (b'{"text": "x", "published_at": "2036-03-01T00:00:00Z"}', "future_date"),
        (b"\xff\xfe plain", "not_utf8"),
        (b'{"text": "\xff", "published_at": "2026-03-01T00:00:00Z"}', "not_utf8"),
        (b'{"a":' * 10_000 + b"1" + b"}" * 10_000, "too_deep"),
        (b"x" * (MAX_NEWS_BYTES + 1), "too_large"),
        (b'{"text": "' + b"x" * MAX_RECORD_BYTES, "too_large"),
        (b'{"source": "solana-status", "text": "x"}', "unmarked_source"),
    ],
)
def test_what_intake_would_refuse_is_refused_here_with_the_same_reason(line: bytes, reason: str) -> None:
    with pytest.raises(ContractError) as refused:
        item_of(line, source="cli", now=NOW)
    assert refused.value.reason == reason


async def values(address: KafkaAddress, topics: Topics) -> list[bytes]:
    spans = await offsets_of(address, topics.news)
    return [record.value async for _, records in read_range(address, spans) for record in records]


async def test_bad_lines_are_counted_and_named_and_the_good_ones_are_sent(
    address: KafkaAddress, topics: Topics, tmp_path: Path
) -> None:
    file = tmp_path / "news.txt"
    dated = b'{"source":"s","text":"t","published_at":"2026-03-01T00:00:00Z"}'
    file.write_bytes(b"\n".join((b"first", b"", b'{"text": broken', b"y" * (4 * 1024 * 1024), dated, b"last")))
    (tmp_path / ".env").write_text("NEWSPROOF_MODE=live\nTAVILY_API_KEY=x\n")
    env = {**on_log(address, topics), "PYTHONPROFILEIMPORTTIME": "1"}
    done = newsproof("publish", str(file), "--json", cwd=tmp_path, env=env)
    assert done.returncode == exits.FINDING
    assert json.loads(done.stdout) == {"published": 3, "refused": 2, "dated_now": 2}
    imports, said = [], list[str]()
    for line in done.stderr.splitlines():
        imports.append(line.rpartition("|")[2].strip()) if line.startswith("import time:") else said.append(line)
    assert "aiokafka" in imports and not set(imports) & set(NOT_FOR_A_CLIENT), "its start would take seconds"
    assert "line 3 refused (not_json)" in said[0] and "line 4 refused (too_large)" in said[1]
    now = datetime.now(UTC)
    assert {decode_news(v, now=now).text for v in await values(address, topics)} == {"first", "t", "last"}


def published(address: KafkaAddress, topics: Topics, tmp_path: Path, lines: bytes, *options: str) -> Any:
    """Publish these lines; return what came of the command, with the values on the topic as ``args``."""
    (tmp_path / "lines").write_bytes(lines)
    done = invoked("publish", "lines", *options, cwd=tmp_path, env=on_log(address, topics))
    done.args = asyncio.run(values(address, topics))
    return done


@pytest.mark.security
def test_a_listed_source_cannot_be_named_neither_one_that_ships_nor_one_of_the_own_file(
    address: KafkaAddress, topics: Topics, tmp_path: Path
) -> None:
    (tmp_path / ".data").mkdir()
    own = '[[source]]\nid = "own"\nkind = "feed"\nurl = "https://own.example/"\n'
    (tmp_path / ".data/sources.toml").write_text(own)
    lines = b'{"source": "solana-status", "text": "x"}\n{"source": "me", "text": "x"}\nplain'
    done = published(address, topics, tmp_path, lines, "--source", "own")
    assert done.stdout == "published 1, refused 2 (1 without published_at: treated as published now)\n"
    for words in ("'solana-status' is a listed source", "'own' is a listed source", "choose another source id"):
        assert words in done.stderr
    assert (done.returncode, len(done.args)) == (exits.FINDING, 1)


def test_a_document_over_several_lines_is_not_taken_for_lines_of_text_and_raw_sends_every_line_unchecked(
    address: KafkaAddress, topics: Topics, tmp_path: Path
) -> None:
    done = published(address, topics, tmp_path, b'[\n  {"text": "x"}\n]\n')
    assert (done.returncode, done.stdout, done.args) == (exits.USAGE, "", []) and "jq -c '.[]'" in done.stderr
    done = published(address, topics, tmp_path, b"{broken\n\xff\n", "--raw")
    assert (done.returncode, done.stdout) == (exits.OK, "published 2, refused 0\n")
    assert sorted(done.args) == [b"{broken", b"\xff"]


@pytest.mark.slow
async def test_standard_input_is_read_for_ever_and_ctrl_c_ends_it(
    address: KafkaAddress, made_topics: Topics, tmp_path: Path
) -> None:
    running = subprocess.Popen(  # noqa: ASYNC220 - its own process group is what is under test
        [*COMMAND, "publish", "-"],
        cwd=tmp_path,
        env=environment(**on_log(address, made_topics)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert running.stdin is not None
    running.stdin.write(b"while it is open\n")
    running.stdin.flush()
    sent: list[Any] = []
    while not sent and running.poll() is None:
        sent = await values(address, made_topics)
    running.send_signal(2)
    _, err = running.communicate(timeout=20)
    assert (running.returncode, err) == (exits.INTERRUPTED, b"")
    assert len(sent) == 1
