"""Nobody borrows the name of a listed source: its news bears the listener's mark, or it is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from infra.listeners.mark import FILE, Marks, keys_at_hand, listener_key
from infra.settings import Settings
from newsproof.app.dead_letters import UnmarkedNews
from newsproof.app.source_list import listed_sources
from schemas.errors import ContractError
from schemas.events import EventReceived
from schemas.news import RETRIES_HEADER, News, is_marked, mark_of
from streams.audit.audit import AuditReport, audit
from streams.journal.clock import utc_now
from streams.journal.log import KafkaLog
from tests.plain_graph import plain_registry
from tests.streams.records import DROPPED, MemoryWorld, after, opening, write
from tests.streams.world import KEY, World, by_the_listener, news

FORGED = news(
    "forged", source="solana-status", url="https://solana.com/news/x", text="Solana Foundation buys back 10 million SOL"
)
GENUINE = by_the_listener(FORGED)


def settings(directory: Path, **given: Any) -> Settings:
    return Settings(_env_file=None, newsproof_data_dir=directory, **given)


def by_key(directory: Path) -> Marks:
    return Marks(settings(directory, listener_key=KEY.decode()))


async def openings(world: World) -> list[EventReceived]:
    return [e for e in await world.story() if isinstance(e, EventReceived)]


@pytest.mark.security
async def test_news_in_the_name_of_a_listed_source_is_refused_and_keeps_the_genuine_item_out_of_nothing(
    world: World, tmp_path: Path
) -> None:
    forgeries = [
        FORGED,
        FORGED | {"mark": mark_of(msgspec.convert(FORGED, News), b"another key")},
        GENUINE | {"url": "https://solana.com/other", "external_id": "of-another-item"},
        FORGED | {"mark": "\u2713"},
    ]
    working: dict[str, Any] = {"authenticate": by_key(tmp_path).authenticate}
    async with world.working(plain_registry(asks=False), **working) as worker:
        await world.publish(*forgeries, FORGED | {"source": "me"})
        await world.until(lambda: worker.intake.poison == 4)
        await world.until_closed(1)
    async with world.working(plain_registry(asks=False), **working) as worker:  # reads what news it has opened
        await world.publish(GENUINE, FORGED)
        await world.until(lambda: worker.intake.poison == 1)
        report = await world.until_closed(2)
    letters = [dict(one.headers) for one in await world.records(world.topics.dead_letters)]
    assert [one["dl_reason"] for one in letters] == [b"unmarked_source"] * 5
    assert all(b"choose another source id" in one["dl_why"] for one in letters)
    counted = await UnmarkedNews(world.address, world.topics).read()
    rows = listed_sources(settings(tmp_path), {}, utc_now(), counted)
    assert {one.id: one.unmarked for one in rows if one.unmarked} == {"solana-status": 5}
    opened = {(e.news.source, e.authenticated) for e in await openings(world)}
    assert opened == {("me", False), ("solana-status", True)} and report.lost == 0


@pytest.mark.security
async def test_a_marked_record_sent_again_as_an_attempt_at_any_other_case_opens_nothing(
    world: World, tmp_path: Path
) -> None:
    async with world.working(plain_registry(asks=False), authenticate=by_key(tmp_path).authenticate) as worker:
        await world.publish(GENUINE)
        await world.until_closed(1)
        (record,) = await world.records(world.topics.news)
        for _ in range(3):
            headers = [(RETRIES_HEADER, str(uuid4()).encode())]
            await world.producer.send_and_wait(world.topics.news, record.value, key=record.key, headers=headers)
        await world.until(lambda: worker.intake.poison == 3)
    letters = [dict(one.headers) for one in await world.records(world.topics.dead_letters)]
    assert [one["dl_reason"] for one in letters] == [b"bad_value"] * 3 and len(await openings(world)) == 1
    assert (await audit(KafkaLog(world.address), world.topics)).lost == 0


@pytest.mark.security
async def test_without_a_key_nothing_is_authenticated_and_nothing_is_refused(world: World, tmp_path: Path) -> None:
    at = settings(tmp_path)
    marks = Marks(at)
    assert keys_at_hand(at) == () and not (tmp_path / FILE).exists()
    async with world.working(plain_registry(asks=False), authenticate=marks.authenticate) as worker:
        await world.publish(GENUINE)
        await world.until_closed(1)
        key = listener_key(at)  # a listener starts
        await world.publish(by_the_listener(FORGED | {"external_id": "2"}, key), FORGED | {"external_id": "3"})
        await world.until(lambda: worker.intake.poison == 1)
        await world.until_closed(2)
    assert {e.news.external_id: e.authenticated for e in await openings(world)} == {"item-forged": False, "2": True}


@pytest.mark.security
@pytest.mark.parametrize(
    "change",
    [
        {"source": "kraken-status"}, {"external_id": "x"}, {"url": "https://solana.com/y"}, {"text": "Solana  Foundation sells"},
        {"published_at": "2026-01-01T00:00:01Z"}, {"received_at": "2026-01-01T00:00:00Z"}, {"language": "zh"},
        {"extra": {"group": "solana"}}, {"extra": {"flags": ["late"]}}, {"author": "me"}, {"origins": ["https://x.example"]},
        {"more": 1},
    ],
)  # fmt: skip
def test_the_mark_covers_every_field(change: dict[str, Any], tmp_path: Path) -> None:
    marks = by_key(tmp_path)

    def decoded(fields: dict[str, Any]) -> News:
        return msgspec.convert({**fields, "unknown": {n: v for n, v in fields.items() if n == "more"}}, News)

    assert marks.authenticate(decoded(GENUINE))
    assert not marks.is_marked(decoded(GENUINE | change))
    with pytest.raises(ContractError, match="choose another source id"):
        marks.authenticate(decoded(GENUINE | change))


def test_of_several_keys_the_first_marks_and_all_are_accepted(tmp_path: Path) -> None:
    at = settings(tmp_path, listener_key=f"the-new-key-of-the-listener, {KEY.decode()}")
    assert listener_key(at) == b"the-new-key-of-the-listener"
    assert Marks(at).is_marked(msgspec.convert(GENUINE, News))


def test_the_key_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    first = listener_key(settings(tmp_path / "data"))
    file = tmp_path / "data" / FILE
    assert first == listener_key(settings(tmp_path / "data")) == file.read_bytes().strip() and len(first) >= 32
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.security
async def test_the_audit_finds_a_case_that_claims_a_listed_source_without_a_valid_mark() -> None:
    world = MemoryWorld()
    forged = {"source": "solana-status", "url": "https://solana.com/x", "mark": "0" * 64}
    genuine = {n: v for n, v in by_the_listener(news(2, source="solana-status")).items() if n != "external_id"}

    async def audited(keys: tuple[bytes, ...]) -> AuditReport:
        return await audit(world.log, world.topics, keys=keys)

    for number, fields in ((1, forged), (2, genuine)):
        case, head, value, headers = opening(number, authenticated=True, **fields)
        await write(world, case, value, headers)
        _, value, headers = after(case, head, DROPPED)
        await write(world, case, value, headers)
    by_hand = await audited((KEY,))
    assert (by_hand.unproven_sources, by_hand.unchecked_sources, by_hand.clean) == (1, 0, False)
    unchecked = await audited(())
    assert (unchecked.unproven_sources, unchecked.unchecked_sources, unchecked.clean) == (0, 2, True)
    assert is_marked(msgspec.convert(by_the_listener(news(2)), News), [KEY])
