"""The ring that all live streams read from: what it holds, what it lets go, and places that come back."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from aiokafka import TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import ContractError
from streams.feed.case_items import Facts, FeedCase, FeedFilter
from streams.feed.window import WRITE_BYTES, Item, Place, Window


def window(**limits: int) -> Window:
    made = Window(**limits)
    made.start("signal", {TopicPartition("s", p): 0 for p in range(2)})
    made.start("case", {TopicPartition("c", 0): 0})
    return made


def item(offset: int, partition: int = 0, data: bytes = b"{}", **fields: Any) -> Item:
    given: dict[str, Any] = {"kind": "signal", "facts": Facts("BTC", "hack", 0.5, "wire", "buy", "likely"), **fields}
    return Item(partition=partition, offset=offset, data=data, **given)


offsets = st.lists(st.integers(0, 2**62), max_size=6).map(tuple)


@given(offsets, offsets)
def test_a_place_comes_back_as_it_was(signal: tuple[int, ...], case: tuple[int, ...]) -> None:
    place = Place(signal=signal, case=case)
    assert Place.read(str(place)) == place
    assert "\n" not in str(place)


@pytest.mark.parametrize(
    "text", ["", "s-", "c1-s1", "s1-c1 ", "s-1-c1", "s1-c1\nevent: x", "s" + "1." * 9000 + "-c", "１"]
)
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(ContractError, match="open the stream without it"):
        Place.read(text)


async def test_the_oldest_items_go_by_count_and_by_size() -> None:
    few = window(items=3)
    few.add("signal", 0, 4, [item(n) for n in range(5)])
    assert (few.first, few.end, [one.offset for one in few.read(2)]) == (2, 5, [2, 3, 4])
    with pytest.raises(LookupError):
        few.read(1)
    small = window(max_bytes=100)
    small.add("signal", 0, 2, [item(n, data=b"x" * 40) for n in range(3)])
    assert [one.offset for one in small.read(small.first)] == [1, 2]


async def test_one_read_is_one_write_however_far_behind_the_reader_is() -> None:
    long = window()
    long.add("signal", 0, 99, [item(n, data=b"x" * 1024) for n in range(100)])
    assert sum(len(one.data) for one in long.read(0)) <= WRITE_BYTES
    huge = window()
    huge.add("signal", 0, 0, [item(0, data=b"x" * (WRITE_BYTES + 1))])
    assert len(huge.read(0)) == 1


async def test_a_place_is_held_until_an_item_behind_it_has_gone() -> None:
    ring = window(items=2)
    ring.add("signal", 0, 9, [])  # nine records that are not shown
    start = Place(signal=(0, 0), case=(0,))
    assert ring.holds(start)
    assert str(ring.place) == "s10.0-c0"
    ring.add("signal", 1, 2, [item(n, partition=1) for n in range(3)])
    assert not ring.holds(start)
    assert ring.behind(start) == Place(signal=(0, 1), case=(0,))
    assert ring.holds(ring.behind(start))
    assert not ring.holds(Place(signal=(0,), case=(0,))), "of another number of partitions"


async def test_waiters_are_woken_by_what_they_wait_for_alone() -> None:
    ring = window()
    waiting = asyncio.create_task(ring.moved(1, 60))
    ring.add("signal", 0, 0, [item(0)])
    assert await ring.moved(0, 60)
    assert not waiting.done()
    ring.add("signal", 0, 1, [item(1)])
    assert await waiting
    assert not await ring.moved(2, 0)


def test_a_filter_takes_what_fits_in_every_field_and_a_case_by_what_is_known_of_it() -> None:
    signal = Facts("BTC", "hack", 0.5, "Wire", "buy", "likely", "final", 2, words=("Binance 上线 ZK", "Wire"))
    case = Facts("BTC", "hack", None, "Wire")
    every = {
        "asset": "btc",
        "event_type": "HACK",
        "source": "wire",
        "action": "buy",
        "verdict": "likely",
        "stage": "final",
    }
    words = [{"text": asked} for asked in ("zk BINANCE", "上线", "wire")]
    fits: list[dict[str, Any]] = [{}, every | {"min_confidence": 0.5, "min_sources": 2}, {"asset": "eth, btc"}, *words]
    assert all(FeedFilter(**one).fits(signal) for one in fits)
    other = {
        "asset": "ETH",
        "event_type": "listing",
        "source": "me",
        "action": "sell",
        "verdict": "refuted",
        "stage": "x",
    }
    for name, value in (other | {"min_confidence": 0.6, "min_sources": 3, "text": "binance kraken"}).items():
        assert not FeedFilter(**{name: value}).fits(signal), name
        # Verdict, action, stage and sources of a case are still to come, and filter no case.
        known = name in ("asset", "event_type", "source", "min_confidence")
        assert FeedFilter(**{name: value}).fits(case) is not known, name
    assert FeedFilter().fits(Facts("", "", None, ""))


def test_a_filter_of_cases_knows_their_state_and_words() -> None:
    case = FeedCase(case_id="abc", received_at=datetime(2026, 1, 1, tzinfo=UTC), source="Wire", text="Binance 上线 X")
    assert all(FeedFilter(text=asked).takes(case) for asked in ("binance", "上线", "WIRE", "ab"))
    assert not FeedFilter(text="kraken").takes(case)
    assert not FeedFilter(state="ended").takes(case)
