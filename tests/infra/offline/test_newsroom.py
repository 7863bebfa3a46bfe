"""The newsroom of `demo --listen`: its script, what of it a listener publishes, and how the demo counts that."""

from __future__ import annotations

import asyncio
import itertools
import signal
from pathlib import Path

import pytest
from pydantic import SecretStr

from infra.embedded.child import free_ports
from infra.kafka.topics import KafkaAddress
from infra.offline.newsroom.newsroom import (
    DEAD,
    HOOK,
    LOOK_EVERY_S,
    OUTLETS,
    PLAYED_S,
    STORY_S,
    Newsroom,
    Shown,
    script,
)
from infra.offline.sample_news import sample_news
from infra.settings import load_settings
from newsproof.app.processes.listening import run_listener
from newsproof.report.demo import ListenSummary, OpenedCase, in_no_case, summary_of
from schemas.ids import text_hash
from schemas.news import News
from schemas.topics import Topics
from tests.infra.fakes.sources import NOON, news_in


def test_the_script_tells_every_event_of_the_sample_in_its_own_words_once_at_least() -> None:
    lines = script()
    assert {line.source for line in lines} == OUTLETS.keys() - {DEAD}
    own = {line.of for line in lines if not line.title}
    assert own == {one.external_id for one in sample_news()}
    first = [(line.source, line.of) for line in lines if not line.change]
    assert len(first) == len(set(first)) >= 40
    changes = [line.change for line in lines if line.change]
    assert sorted(changes) == ["edit", "edit", "rendering"]
    assert all((line.source, line.of) in first for line in lines if line.change)
    of = [line.of for line in lines]
    assert of.index("h30") > of.index("h42") > of.index("h33"), "h42 denies h33, and would withdraw h30 too"
    a_line_s = PLAYED_S / len(lines)
    for alike in (("h33", "h34", "h30"), ("h25", "h31")):  # the SEC approves; BlackRock files
        for one, other in itertools.pairwise(alike):
            last = len(of) - 1 - of[::-1].index(one)
            assert (of.index(other) - last) * a_line_s > STORY_S + LOOK_EVERY_S


@pytest.mark.slow
async def test_a_real_listener_publishes_all_that_the_newsroom_tells_and_nothing_twice(
    address: KafkaAddress, topics: Topics, tmp_path: Path
) -> None:
    file, (port,) = tmp_path / "sources.toml", free_ports(1)
    async with Newsroom(over_s=0) as newsroom:
        file.write_text(newsroom.rows)
        settings = load_settings(
            _env_file=None, listener_sources=file, listener_webhook_port=port,
            listener_webhook_secret=SecretStr(f"{HOOK}={newsroom.secret}"), newsproof_topic_prefix=topics.prefix, topic_partitions=2,
            kafka_bootstrap_servers=address.bootstrap, kafka_embedded_password_file=address.password_file,
        )  # fmt: skip
        running = asyncio.create_task(run_listener(settings, only=newsroom.sources))
        async with asyncio.timeout(60):
            await newsroom.play(f"http://127.0.0.1:{port}")
            while len(found := await news_in(address, topics)) < newsroom.tellings:  # noqa: ASYNC110 - the log tells no event
                await asyncio.sleep(0.1)
        signal.raise_signal(signal.SIGTERM)
        await running
    cases = {one.case_id: OpenedCase(one.source, one.identity, one.text_hash) for one in found}
    counted = summary_of(newsroom.shown, found, cases, 1.0)
    told = newsroom.tellings
    assert counted == ListenSummary(
        kinds=7, sources=10, items=told - 2, stories=told, cases=told, edits=2, lost=0, second_cases=0, seconds=1.0
    )
    assert {(one.source, one.text_hash) for one in newsroom.shown} == {(one.source, one.text_hash) for one in found}


def test_what_has_no_case_is_lost_and_what_has_two_or_was_never_told_is_a_second_case() -> None:
    def told(of: str, text: str, *, is_edit: bool = False) -> Shown:
        return Shown(source="flash", of=of, text_hash=text_hash(text), is_edit=is_edit)

    def news(of: str, text: str) -> News:
        return News(source="flash", external_id=of, text=text, published_at=NOON)

    def opened(of: str, text: str, told_before: str = "") -> OpenedCase:
        return OpenedCase("flash", of, text_hash(text), told_before)

    shown = [told("a", "A"), told("a", "A, corrected", is_edit=True), told("b", "B"), told("c", "C")]
    published = [news("a", "A"), news("a", "A, corrected"), news("a", "A, corrected"), news("b", "B")]
    cases = {"1": opened("a", "A"), "2": opened("a", "A, corrected"), "3": opened("b", "B", told_before="1")}
    assert summary_of(shown, published, cases, 9.876) == ListenSummary(
        kinds=1, sources=1, items=2, stories=2, cases=3, edits=1, lost=1, second_cases=0, seconds=9.88
    )
    assert [one.of for one in in_no_case(shown, cases.values())] == ["c"]
    cases |= {"4": opened("b-again", "B"), "5": opened("d", "D")}
    assert summary_of(shown, published, cases, 1.0).second_cases == 2
    del cases["1"]
    assert summary_of(shown, published, cases, 1.0).lost == 1, "its edit is in a case"
