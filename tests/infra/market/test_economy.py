"""The economy and the mood of the market: what had been published by then, and what had not."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Literal

import msgspec
import pytest

from infra.market.economy import month_known_from, week_known_from
from infra.ports import Port
from schemas.effects import Failure, FetchMarket, MarketReply, Reply
from tests.infra.fakes import market as fake
from tests.infra.fakes.market import AS_OF, asked, known_name, research
from tests.infra.fakes.server import Behaviour, Say

TABLES: dict[str, Behaviour] = {
    "id=DFF": fake.fred("DFF", ("2024-05-01", "5.08"), ("2024-06-03", "5.33"), ("2024-06-04", "5.99")),
    "id=DGS10": fake.fred("DGS10", ("2024-05-02", "4.59"), ("2024-05-31", "."), ("2024-06-03", "4.41")),
    "id=DTWEXBGS": fake.fred("DTWEXBGS", ("2024-04-26", "122.0"), ("2024-05-31", "123.22"), ("2024-06-03", "9")),
    "id=M2SL": fake.fred(
        "M2SL", ("2023-03-01", "1"), ("2023-04-01", "20000"), ("2024-04-01", "20140"), ("2024-05-01", "99999")
    ),
}


async def ask(ports: dict[str, Port], kind: Literal["economy", "sentiment"], as_of: datetime = AS_OF) -> Reply:
    answer = await ports["market"].perform(FetchMarket(kind=kind, asset="BTC", as_of=as_of))
    assert answer.cost_usd == 0
    assert msgspec.json.decode(msgspec.json.encode(answer.reply), type=Reply) == answer.reply
    if isinstance(answer.reply, MarketReply):
        assert all(known_name(kind, v.name) for v in answer.reply.values)
    return answer.reply


def figures(reply: Reply) -> dict[str, float]:
    assert isinstance(reply, MarketReply), reply
    return {v.name: v.value for v in reply.values}


async def test_figures_are_those_that_had_been_published_by_then() -> None:
    async with research(fred=TABLES) as (ports, servers):
        reply = await ask(ports, "economy")
        requests = {asked(r)["id"]: asked(r) for r in servers["fred"].requests}
        assert servers["fred_api"].requests == []
    assert figures(reply) == {
        "fed_funds_rate": 5.33,  # that of the 4th is out in the evening
        "fed_funds_rate_change_30d": 0.25,
        "treasury_yield_10y": 4.41,
        "treasury_yield_10y_change_30d": -0.18,
        "dxy": 123.22,  # the week of the 3rd is out on the 11th
        "dxy_change_30d": 1.0,
        "m2_growth": 0.7,  # that of May is out on the 25th
    }
    assert isinstance(reply, MarketReply) and reply.unknown == ()
    told = {v.name: (v.source, v.observed_at) for v in reply.values}
    assert told["fed_funds_rate"] == ("fred DFF", datetime(2024, 6, 4, 21, 30, tzinfo=UTC))
    assert told["dxy"] == ("fred DTWEXBGS", datetime(2024, 6, 4, 21, 30, tzinfo=UTC))
    assert told["m2_growth"] == ("fred M2SL", datetime(2024, 5, 28, 21, 30, tzinfo=UTC))
    assert {"DFF", "DGS10", "DTWEXBGS", "M2SL"} == set(requests)
    assert (requests["DFF"]["cosd"], requests["DFF"]["coed"]) == ("2024-04-06", "2024-06-05")


def test_a_week_is_out_on_the_tuesday_after_it_and_a_month_on_the_fourth_tuesday_of_the_next() -> None:
    out = {day: week_known_from(date(2024, 6, day)) for day in (3, 7)}
    assert out == dict.fromkeys((3, 7), datetime(2024, 6, 11, 21, 30, tzinfo=UTC))
    months = (date(2024, 4, 1), date(2024, 12, 1), date(2025, 9, 1))
    assert [month_known_from(month) for month in months] == [
        datetime(2024, 5, 28, 21, 30, tzinfo=UTC),
        datetime(2025, 1, 28, 21, 30, tzinfo=UTC),
        datetime(2025, 10, 28, 21, 30, tzinfo=UTC),
    ]


async def test_a_series_that_fails_is_named_and_the_others_stay() -> None:
    async with research(fred={**TABLES, "id=DFF": fake.DOWN}) as (ports, _):
        reply = await ask(ports, "economy")
    assert "fed_funds_rate" not in figures(reply) and figures(reply)["dxy"] == 123.22
    assert isinstance(reply, MarketReply)
    assert reply.unknown == ("economy: fred DFF failed (FRED is unavailable (503: maintenance))",)


async def test_stale_figures_and_missing_ones_to_compare_with_are_unknown() -> None:
    tables: dict[str, Behaviour] = {
        "id=DFF": fake.fred("DFF", ("2024-05-10", "5.33")),
        "id=DGS10": fake.fred("DGS10", ("2024-06-03", "4.41")),
        "id=DTWEXBGS": fake.fred("DTWEXBGS"),
        "id=M2SL": fake.fred("M2SL", ("2023-03-01", "1"), ("2024-04-01", "20140")),
    }
    async with research(fred=tables) as (ports, _):
        reply = await ask(ports, "economy")
    assert figures(reply) == {"treasury_yield_10y": 4.41}
    assert isinstance(reply, MarketReply)
    assert [line.partition(":")[0] for line in reply.unknown] == [
        *("fed_funds_rate", "treasury_yield_10y_change_30d", "dxy", "m2_growth"),
    ]


async def test_money_of_months_ago_is_not_the_present_growth() -> None:
    table = fake.fred("M2SL", ("2023-01-01", "100"), ("2024-01-01", "101"))
    async with research(fred={**TABLES, "id=M2SL": table}) as (ports, _):
        reply = await ask(ports, "economy")
    assert "m2_growth" not in figures(reply)
    assert isinstance(reply, MarketReply) and reply.unknown[0].startswith("m2_growth: FRED has no month")


async def test_with_a_key_the_series_are_read_as_they_stood_then() -> None:
    api: dict[str, Behaviour] = {
        "series_id=DFF": fake.observations(("2024-05-01", "5.33"), ("2024-06-03", "5.33"), ("bad", "1")),
        "series_id=DGS10": fake.observations(("2024-06-03", "4.41"), ("2024-05-31", ".")),
        "series_id=DTWEXBGS": fake.observations(("2024-05-31", "123.22")),
        "series_id=M2SL": fake.observations(("2023-04-01", "20000"), ("2024-04-01", "20100")),
    }
    async with research(settings={"fred_api_key": "abcdef123456"}, fred_api=api) as (ports, servers):
        reply = await ask(ports, "economy")
        await ask(ports, "economy", AS_OF.replace(hour=22))
        requests = [asked(r) for r in servers["fred_api"].requests if asked(r)["series_id"] == "M2SL"]
        assert servers["fred"].requests == []
    assert figures(reply)["m2_growth"] == 0.5
    assert [(r["realtime_start"], r["realtime_end"]) for r in requests] == [
        ("2024-06-04", "2024-06-04"),  # what comes out in the course of a day is seen in its evening
        ("2024-06-05", "2024-06-05"),
    ]
    assert requests[0]["api_key"] == "abcdef123456" and requests[0]["file_type"] == "json"


async def test_a_wrong_key_names_its_setting_and_is_not_repeated() -> None:
    said = "Bad Request. The value for variable api_key is not registered: abcdef123456"
    wrong = Say({"error_code": 400, "error_message": said}, status=400)
    async with research(settings={"fred_api_key": "abcdef123456"}, fred_api=wrong) as (ports, _):
        reply = await ask(ports, "economy")
    assert isinstance(reply, Failure) and (reply.kind, reply.retryable) == ("auth", False)
    assert "FRED_API_KEY" in reply.message and "abcdef123456" not in reply.message


# The mood


async def test_fear_and_greed_is_that_of_the_day_and_its_change_over_a_week() -> None:
    mood = fake.mood(("2024-06-06", "1"), ("2024-06-05", "74"), ("2024-06-04", "70"), ("2024-05-29", "60"))
    async with research(fear_greed=mood) as (ports, _):
        reply = await ask(ports, "sentiment")
    assert figures(reply) == {"fear_greed_index": 74.0, "fear_greed_index_change_7d": 14.0}
    assert isinstance(reply, MarketReply)
    assert {v.observed_at for v in reply.values} == {datetime(2024, 6, 5, tzinfo=UTC)}


async def test_a_stale_mood_is_unknown() -> None:
    async with research(fear_greed=fake.mood(("2024-05-01", "74"))) as (ports, _):
        reply = await ask(ports, "sentiment")
    assert isinstance(reply, MarketReply)
    assert (reply.values, reply.unknown) == ((), ("fear_greed_index: alternative.me has none of that day",))
    async with research(fear_greed=fake.mood(("2024-06-05", "74"))) as (ports, _):
        lone = await ask(ports, "sentiment")
    assert isinstance(lone, MarketReply)
    assert lone.unknown == ("fear_greed_index_change_7d: nothing to compare with",)


@pytest.mark.parametrize("body", [b"<html></html>", b'{"data": [{"value": "x"}]}', b'{"data": 3}', b"[]"])
async def test_a_mood_that_cannot_be_read_is_no_answer(body: bytes) -> None:
    async with research(fear_greed=Say(body)) as (ports, _):
        reply = await ask(ports, "sentiment")
    assert isinstance(reply, Failure) and (reply.kind, reply.retryable) == ("invalid_output", True)
