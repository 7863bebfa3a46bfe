"""What the API makes of ClickHouse's tables, on the embedded engine with its analysts' user, filled by the sink."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any
from xml.etree import ElementTree as Xml

import httpx
import pytest
from msgspec.structs import replace
from starlette.requests import Request

from evaluation.prices.study import OFFSETS_MIN
from infra.clickhouse.client import ClickHouse
from infra.embedded.clickhouse.server import EmbeddedClickHouse
from infra.settings import Settings
from newsproof.app.composition import clickhouse_of
from newsproof.app.processes.supervisor import prepare_tables
from newsproof.app.servers import servers
from newsproof.report.report_charts import CHARTS
from newsproof.web.api import analytics as analytics_api
from newsproof.web.responses import Refused
from schemas import events as ev
from schemas.ids import signal_id
from streams.feed import live
from streams.sink.sink import Sink
from tests.evaluation.prices.test_profit_tables import market
from tests.evaluation.stored import store_prices
from tests.newsproof.signal_samples import signal, write_signals
from tests.newsproof.web.conftest import Serving
from tests.newsproof.web.test_web_live import open_case, until_ready
from tests.streams.records import DROPPED, TRIAGED, after, opening, write
from tests.streams.world import World


@pytest.fixture
async def tables(world: World, web_settings: Settings) -> AsyncIterator[str]:
    """The address of an engine on the service's data directory, with the tables."""
    async with servers(web_settings, kafka=False) as found:
        await prepare_tables(found.applied_to(web_settings))
        assert found.clickhouse is not None
        yield found.clickhouse


@pytest.fixture
def shared(clickhouse: ClickHouse, clickhouse_engine: EmbeddedClickHouse) -> dict[str, str]:
    """Settings of a service that reads the session's tables."""
    url = f"http://{clickhouse_engine.host}:{clickhouse_engine.port}"
    return {"clickhouse_url": url, "clickhouse_database": clickhouse.database}


async def fill(world: World, settings: Settings) -> None:
    """Bring everything that is in the log into the tables."""
    async with clickhouse_of(settings) as client:
        sink = Sink(world.address, world.topics, client)
        running = asyncio.create_task(sink.run())
        await sink.caught_up()
        sink.stop()
        await running


async def test_cases_beyond_memory_come_from_the_tables_page_by_page(
    world: World, web_settings: Settings, serving: Serving, shared: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [await open_case(world, n, TRIAGED, DROPPED, text=f"story {n} of {'hacks' if n % 5 == 0 else 'listings'}")
            for n in range(25)]  # fmt: skip
    going = await open_case(world, 100, TRIAGED, text="long " * 80 + "needle")  # more than is held in memory
    await fill(world, web_settings.model_copy(update=shared))
    monkeypatch.setattr(live, "RECENT_RECORDS", 4)  # the newest alone are remembered
    async with serving(**shared) as http:
        await until_ready(http, world)

        async def answers() -> bool:
            return bool((await http.get("/api/v1/status")).json()["clickhouse"] == "ok")

        await world.until(answers, 60)
        items: list[dict[str, Any]] = []
        before = ""
        while True:
            page = (await http.get(f"/api/v1/cases?limit=7{before}")).json()
            assert page["note"] == ""
            items += page["items"]
            if page["next"] is None:
                break
            before = f"&before={page['next']}"
        # Tables keep milliseconds, and two cases may be of the same one.
        times = [int(datetime.fromisoformat(one["received_at"]).timestamp() * 1000) for one in items]
        assert times == sorted(times, reverse=True)
        assert len(items) == 26 and {one["case_id"] for one in items} == {going, *made}
        assert {one["status"] for one in items} == {"open", "dropped"}
        found = (await http.get("/api/v1/cases?q=HACKS&state=ended")).json()["items"]
        assert [one["case_id"] for one in found] == [made[n] for n in (20, 15, 10, 5, 0)]
        assert [one["case_id"] for one in (await http.get("/api/v1/cases?state=open")).json()["items"]] == [going]
        for state, there in (("", [going]), ("&state=open", [going]), ("&state=ended", [])):
            found = (await http.get(f"/api/v1/cases?q=NEEDLE{state}")).json()["items"]
            assert [one["case_id"] for one in found] == there, state
        told = (await http.get(f"/api/v1/cases/{made[0][:13]}")).json()
        assert (await http.get("/api/v1/cases/wire:item-0")).json()["case_id"] == made[0]
        assert told["news"]["text"] == "story 0 of hacks"
        assert [step["phase"] for step in told["timeline"]] == ["received", "triaged", "ended"]
        unknown = await http.get(f"/api/v1/cases/{signal_id('live', 'nobody')}")
        assert unknown.status_code == 404
    behind = await open_case(
        world, 200, TRIAGED, DROPPED
    )  # the sink has not seen it, and memory holds later ones alone
    for n in range(201, 211):
        await open_case(world, n, TRIAGED, DROPPED)
    async with serving(**shared) as http:
        await until_ready(http, world)
        assert (await http.get(f"/api/v1/cases/{behind}")).json()["case"]["status"] == "dropped"


async def test_a_withdrawn_signal_is_listed_and_told_as_it_stands_now(
    world: World, web_settings: Settings, serving: Serving, shared: dict[str, str]
) -> None:
    case, head, value, headers = opening(1)
    await write(world, case, value, headers)
    ended = signal(case_id=case, signal_id=signal_id("live", case), confidence=0.9)
    denied = replace(ended, revision=2, stage="retracted", verdict="refuted", action="observe", direction="neutral")
    for event in (TRIAGED, ev.SignalSynthesized(signal=ended, path="deep")):
        head, value, headers = after(case, head, event)
        await write(world, case, value, headers)
    await write_signals(world.address, world.topics, ended, replace(denied, confidence=0.0))
    await fill(world, web_settings.model_copy(update=shared))
    async with serving(**shared) as http:
        await until_ready(http, world)

        async def withdrawn() -> bool:
            (one,) = (await http.get("/api/v1/cases")).json()["items"]
            return bool(one["withdrawn"])

        await world.until(withdrawn, 60)
        (one,) = (await http.get("/api/v1/cases")).json()["items"]
        assert (one["status"], one["end"], one["confidence"]) == ("signal", "observe 0.00 (retracted)", 0.0)
        assert one["verdict"] == "refuted"
        told = (await http.get(f"/api/v1/cases/{case}")).json()["revisions"]
        names = ("stage", "verdict", "action", "direction")
        assert [[r[name] for name in names] for r in told] == [
            ["final", "confirmed", "sell", "short"],
            ["retracted", "refuted", "observe", "neutral"],
        ]


async def prices_are_told(http: httpx.AsyncClient, settings: Settings) -> None:
    chart = f"/api/v1/prices/candles?case={signal('a').case_id}"
    assert (await http.get(f"/api/v1/prices?case={signal('a').case_id}")).json() == {"prices": {}}
    none = {"market": None, "why": "no_import"}, {"market": None, "why": "no_signal"}
    assert ((await http.get(chart)).json(), (await http.get(f"{chart[:-36]}{signal('none').case_id}")).json()) == none
    async with clickhouse_of(settings) as client:
        await store_prices(client, 1, "csv:a.csv", market("BTC/USDT", {60: 110.0}))
    priced = (await http.get(f"/api/v1/prices?case={signal('a').case_id}&case={signal('none').case_id}")).json()
    found = {"symbol": "BTC/USDT", "price": 100.0, "at": "2026-03-01T12:00:00Z", "last": 110.0,
             "last_at": "2026-03-02T17:55:00Z", "synthetic": False}  # fmt: skip
    assert priced["prices"].keys() == {signal("a").case_id}, "of the other there are no prices, and so it is left out"
    change = priced["prices"][signal("a").case_id].pop("change")
    assert (priced["prices"], round(change, 9)) == ({signal("a").case_id: found}, 0.1)
    market_of = (await http.get(chart)).json()["market"]
    assert (market_of["symbol"], market_of["step_s"], market_of["synthetic"]) == ("BTC/USDT", 300, False)
    noon = int(datetime.fromisoformat(found["at"]).timestamp())
    assert len(market_of["candles"]) == 2 * 288 and market_of["candles"][0][0] == noon - 86_400
    (own,) = market_of["signals"]
    assert (own["case_id"], own["at"], own["action"]) == (signal("a").case_id, found["at"], "sell")
    wider = (await http.get(f"{chart}&days=7")).json()["market"]
    hour = next(one for one in wider["candles"] if one[0] == noon + 3_600)
    assert (wider["step_s"], hour[1:]) == (3_600, [110.0, 110.0, 110.0, 110.0])


@pytest.mark.slow
async def test_report_charts_sql_and_backtests_read_as_the_analysts_user(
    world: World, web_settings: Settings, serving: Serving, tables: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await open_case(world, 1, TRIAGED, DROPPED)
    await write_signals(world.address, world.topics, signal("a"), signal("a", revision=2, confidence=0.1))
    at = web_settings.model_copy(update={"clickhouse_url": tables})
    await fill(world, at)
    monkeypatch.setattr(analytics_api, "MOST_ROWS", 10)
    async with serving(clickhouse_url=tables) as http:

        async def answers() -> bool:
            return bool((await http.get("/api/v1/status")).json()["clickhouse"] == "ok")

        await world.until(answers, 60)
        report = (await http.get("/api/v1/report?days=7")).json()
        assert report["answers"]["deltas"] and not report["is_empty"]
        assert (await http.get("/api/v1/report?to=2020-01-01")).json()["is_empty"]
        assert (await http.get("/api/v1/report/tables/trust")).json()["rows"]
        periods = ("?days=7&from=2026-01-01", "?from=2026-02-01&to=2026-01-01", "/tables/none")
        assert [(await http.get(f"/api/v1/report{one}")).status_code for one in periods] == [400, 400, 404]
        saved = await http.get("/api/v1/report/tables/deltas?days=7&format=csv")
        assert saved.headers["content-type"] == "text/csv; charset=utf-8" and saved.text.startswith(
            "delta_from,signals\n"
        )
        for name in CHARTS:
            for theme, faint in (("light", "#6b6b6b"), ("dark", "#a5a5a5")):
                drawn = await http.get(f"/api/v1/report/charts/{name}.svg?theme={theme}&size=narrow&language=zh")
                assert drawn.headers["content-type"] == "image/svg+xml"
                assert Xml.fromstring(drawn.text).tag == "{http://www.w3.org/2000/svg}svg"
                assert "var(" not in drawn.text
                assert faint in drawn.text
        none = (await http.get("/api/v1/report/study?by=source")).json()
        assert none == {"study": None, "why": "there are no prices yet: import some with `newsproof outcomes import`"}
        assert (await http.get("/api/v1/report/charts/study.svg")).status_code == 404
        await prices_are_told(http, at)
        told = (await http.get("/api/v1/report/study?by=source")).json()["study"]
        assert (told["run_id"], told["study"]["events"]) == ("live", 1)
        saved = await http.get("/api/v1/report/study?by=source&format=csv")
        assert (
            len(saved.text.splitlines()) == 1 + 2 * len(OFFSETS_MIN)
            and "attachment" in saved.headers["content-disposition"]
        )
        drawn = await http.get("/api/v1/report/charts/study.svg?theme=dark&by=source&returns=raw")
        assert Xml.fromstring(drawn.text).tag == "{http://www.w3.org/2000/svg}svg" and "var(" not in drawn.text
        few = (
            await http.post("/api/v1/sql", json={"query": "SELECT number, toString(number) AS t FROM numbers(10)"})
        ).json()
        assert few["columns"] == [{"name": "number", "type": "UInt64"}, {"name": "t", "type": "String"}]
        assert (few["rows"][9], few["truncated"]) == ([9, "9"], False)
        wide = "toDecimal128('12345678901234567.89', 2), toDecimal64('0.5', 2), toUInt64(-1), [toUInt64(-1), 1], 0.25, NULL"
        at = "toDateTime64('2026-03-01 13:00:00.5', 3, 'Europe/Berlin')"
        query = {"query": f"SELECT {wide}, {at}, true, 'a' || char(255)"}
        assert (await http.post("/api/v1/sql", json=query)).json()["rows"] == [
            ["12345678901234567.89", 0.5, "18446744073709551615", ["18446744073709551615", 1], 0.25, None,
             "2026-03-01T12:00:00.500000Z", True, "a\ufffd"]
        ]  # fmt: skip
        none = (await http.post("/api/v1/sql", json={"query": "SELECT 1 AS one WHERE false"})).json()
        assert (none["columns"], none["rows"]) == ([{"name": "one", "type": "UInt8"}], [])
        huge = await http.post("/api/v1/sql", json={"query": "SELECT range(10000000)"})
        assert huge.status_code == 400 and "ask for less of it" in huge.text
        many = (await http.post("/api/v1/sql", json={"query": "SELECT * FROM numbers(500000)"})).json()
        assert (len(many["rows"]), many["truncated"]) == (10, True)
        for refused in (
            "DROP TABLE events",
            "INSERT INTO runs VALUES ()",
            "SELECT 1; SELECT 2",
            "SELECT",
            "SELECT * FROM system.users",
        ):
            answer = await http.post("/api/v1/sql", json={"query": refused})
            assert answer.status_code == 400, refused
            assert set(answer.json()) == {"error", "do"}
        assert (await http.get("/api/v1/backtests")).json() == {"items": []}
        assert (await http.get("/api/v1/backtests/none")).status_code == 404
        assert (await http.get("/api/v1/backtests/compare?a=live&b=none")).status_code == 404


# Statements that take their time, without any database


async def test_whoever_finds_no_place_is_told_so_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analytics_api, "PLACE_WITHIN_S", 0.01)
    places = asyncio.Semaphore(1)
    async with analytics_api.held_slot(places):
        with pytest.raises(Refused, match="other statements are running"):
            async with analytics_api.held_slot(places):
                raise AssertionError("two hold one place")
    async with analytics_api.held_slot(places):
        assert places.locked()


def asked_by(gone: asyncio.Event) -> Request:
    async def receive() -> dict[str, Any]:
        await gone.wait()
        return {"type": "http.disconnect"}

    return Request({"type": "http", "headers": []}, receive)


async def test_what_nobody_waits_for_any_more_is_ended() -> None:
    gone, begun, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def work() -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            ended.set()

    asking = asyncio.create_task(analytics_api.unless_disconnected(asked_by(gone), work()))
    await begun.wait()
    gone.set()
    with pytest.raises(Refused):
        await asking
    assert ended.is_set()


async def test_whoever_stays_gets_the_answer() -> None:
    assert await analytics_api.unless_disconnected(asked_by(asyncio.Event()), asyncio.sleep(0, "answer")) == "answer"
