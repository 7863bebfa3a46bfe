"""Signals and cases over HTTP: lists, one case, and the live stream that resumes."""

from __future__ import annotations

import random
from typing import Any

import httpx

from schemas import events as ev
from schemas.ids import signal_id
from tests.newsproof.signal_samples import signal, write_signals
from tests.newsproof.web.conftest import Serving
from tests.newsproof.web.reading import streaming
from tests.streams.records import DROPPED, TRIAGED, after, opening, write
from tests.streams.world import World


async def open_case(world: World, number: int, *then: ev.Event, **changes: str) -> str:
    case, head, value, headers = opening(number, **changes)
    await write(world, case, value, headers)
    for event in then:
        head, value, headers = after(case, head, event)
        await write(world, case, value, headers)
    return case


async def until_ready(http: httpx.AsyncClient, world: World) -> None:
    async def ready() -> bool:
        return (await http.get("/readyz")).status_code == 200

    await world.until(ready, 60)


async def test_a_live_signal_and_a_case_reach_an_open_stream(world: World, serving: Serving) -> None:
    async with serving() as http, streaming(http, "/api/v1/stream") as stream:
        await stream.connected()
        await write_signals(world.address, world.topics, signal("a"))
        case = await open_case(world, 1, TRIAGED, DROPPED)
        got = [await stream.next() for _ in range(4)]
        signals = [one for one in got if one is not None and one.event == "signal"]
        cases = [one.data["data"] for one in got if one is not None and one.event == "case"]
        assert [one.data["data"]["signal_id"] for one in signals] == [signal("a").signal_id]
        assert [(one["case_id"], one["phase"], one["status"], one["step"]) for one in cases] == [
            (case, "received", "open", "triage"),
            (case, "triaged", "open", "recall"),
            (case, "ended", "dropped", ""),
        ]


async def test_a_stream_that_is_cut_and_resumed_loses_and_repeats_nothing(world: World, serving: Serving) -> None:
    draws = random.Random(7)
    expected, got = set(), []
    async with serving() as first, serving() as second:  # two processes' worth: a stream may resume at either
        last = ""
        for part in range(6):
            async with streaming(draws.choice((first, second)), "/api/v1/stream", last_id=last) as stream:
                if not last:
                    await stream.connected()
                numbers = range(part * 10, part * 10 + 10)
                await write_signals(world.address, world.topics, *(signal(f"s{n}") for n in numbers))
                for number in numbers:
                    expected |= {("signal", signal(f"s{number}").signal_id)}
                    expected |= {("received", await open_case(world, number, TRIAGED)), ("triaged", _case_of(number))}
                for _ in range(draws.randrange(1, 30)):
                    got.append(_named(await stream.next()))
                last = stream.last_id
        async with streaming(second, "/api/v1/stream", last_id=last) as stream:
            while len(got) < len(expected):
                got.append(_named(await stream.next()))
    assert len(got) == len(set(got))
    assert set(got) == expected


def _case_of(number: int) -> str:
    return opening(number)[0]


def _named(one: Any) -> tuple[str, str]:
    data = one.data["data"]
    return ("signal", data["signal_id"]) if one.event == "signal" else (data["phase"], data["case_id"])


async def test_a_filtered_stream_holds_what_becomes_of_a_signal_and_how_a_case_ends(
    world: World, serving: Serving
) -> None:
    async with serving() as http, streaming(http, "/api/v1/stream?asset=eth&min_confidence=0.5") as stream:
        await stream.connected()
        await write_signals(world.address, world.topics, signal("was", asset="ETH", confidence=0.6))
        changed = signal("was", asset="BTC", confidence=0.1, revision=2, stage="retracted")
        await write_signals(world.address, world.topics, changed, signal("other"))
        await open_case(world, 1, DROPPED)
        got = [await stream.next() for _ in range(3)]
        signals = [one.data["data"] for one in got if one is not None and one.event == "signal"]
        assert [(one["revision"], one["stage"]) for one in signals][1:] == [(2, "retracted")]
        assert [one.data["data"]["status"] for one in got if one is not None and one.event == "case"] == ["dropped"]


async def test_pages_of_signals_hold_each_signal_once_in_its_newest_revision(world: World, serving: Serving) -> None:
    many = [
        signal(f"p{n}", asset="SOL" if n % 10 == 0 else "BTC", verdict="likely" if n == 9 else "confirmed")
        for n in range(60)
    ]
    changed = signal("p7", revision=2, stage="retracted", verdict="refuted")
    await write_signals(world.address, world.topics, *many, changed)
    async with serving() as http:
        await until_ready(http, world)
        items, before = [], ""
        while True:
            page = (await http.get(f"/api/v1/signals?limit=25{before}")).json()
            items += page["items"]
            if page["next"] is None:
                break
            before = f"&before={page['next']}"
        assert len(items) == 60
        assert {(i["signal_id"], i["revision"]) for i in items} == {
            (one.signal_id, 2 if n == 7 else 1) for n, one in enumerate(many)
        }
        sol = (await http.get("/api/v1/signals?asset=SOL")).json()["items"]
        assert len(sol) == 6
        for asked, found in (
            ("stage=retracted", [("p7", "refuted")]),
            ("verdict=likely", [("p9", "likely")]),
            ("verdict=refuted&stage=final", []),
        ):
            items = (await http.get(f"/api/v1/signals?{asked}")).json()["items"]
            assert [(i["summary"], i["verdict"]) for i in items] == found


async def test_cases_are_listed_and_told_without_clickhouse_which_is_said(world: World, serving: Serving) -> None:
    ended = await open_case(world, 1, TRIAGED, DROPPED, text="An exchange halts withdrawals")
    going = await open_case(world, 2, TRIAGED)
    async with serving() as http:
        await until_ready(http, world)
        page = (await http.get("/api/v1/cases")).json()
        assert [(i["case_id"], i["status"]) for i in page["items"]] == [(going, "open"), (ended, "dropped")]
        assert "ClickHouse is not responding" in page["note"]
        assert (await http.get("/api/v1/cases?state=open")).json()["note"] == ""
        assert [i["case_id"] for i in (await http.get("/api/v1/cases?q=WITHDRAWALS")).json()["items"]] == [ended]
        told = (await http.get(f"/api/v1/cases/{ended}")).json()
        assert told["news"]["text"] == "An exchange halts withdrawals"
        assert [step["phase"] for step in told["timeline"]] == ["received", "triaged", "ended"]
        assert [one["accepted"] for one in told["events"]] == [True] * 3
        missing = await http.get(f"/api/v1/cases/{signal_id('live', 'none')}")
        assert (missing.status_code, set(missing.json())) == (404, {"error", "do"})
