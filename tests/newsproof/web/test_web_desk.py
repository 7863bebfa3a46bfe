"""What the desk asks for: news put in, the figures of its line, filters, and cases by the names that people give them."""

from __future__ import annotations

from decimal import Decimal

import msgspec
import pytest

from infra.offline.sample_news import sample_news
from schemas.budget import LimitsSet, encode
from schemas.effects import Failure
from tests.newsproof.signal_samples import signal, write_signals
from tests.newsproof.web.conftest import Serving
from tests.newsproof.web.reading import streaming
from tests.newsproof.web.test_web_live import open_case, until_ready
from tests.streams.records import DROPPED, TRIAGED, paid_call
from tests.streams.world import World

NEWS, SAMPLE = "/api/v1/news", "/api/v1/news/sample"
TEXT = {"text": "Binance lists ZK"}


@pytest.mark.security
async def test_an_item_is_on_the_log_when_it_is_accepted_and_refused_in_the_commands_words(
    world: World, serving: Serving
) -> None:
    async with serving() as http:
        done = await http.post(NEWS, json={**TEXT, "source": "me", "external_id": "n/1"})
        again = await http.post(NEWS, json={**TEXT, "source": "me", "external_id": "n/1"})
        assert (done.status_code, done.json()["dated_now"], set(done.json())) == (202, True, {"case_id", "dated_now"})
        assert again.json()["case_id"] == done.json()["case_id"], "one case, however often it is published"
        [first, _] = await world.records(world.topics.news)
        assert (first.key, b'"received_at"' in first.value) == (b"me:n/1", True)
        assert (await http.post(NEWS, json=TEXT)).json()["case_id"] != done.json()["case_id"]
        for body, why in (
            ("[1]", "a JSON array is not a news item"),
            ("{}", "'text' is missing"),
            ('{"text": "', "not JSON"),
        ):
            refused = await http.post(NEWS, content=body, headers={"content-type": "application/json"})
            assert (refused.status_code, why in refused.text, set(refused.json())) == (400, True, {"error", "do"})
        foreign = await http.post(NEWS, json=TEXT, headers={"sec-fetch-site": "cross-site"})
        stranger = await http.post(NEWS, json=TEXT, headers={"authorization": "Bearer none"})
        assert (foreign.status_code, stranger.status_code) == (403, 401)
        sample = await http.post(SAMPLE)
        assert (sample.status_code, sample.json()) == (202, {"published": len(sample_news())})
        assert len(await world.records(world.topics.news)) == 3 + len(sample_news())


@pytest.mark.security
async def test_an_item_in_a_listed_sources_name_is_refused(world: World, serving: Serving) -> None:
    async with serving() as http:
        refused = await http.post(NEWS, json={**TEXT, "source": "solana-status", "url": "https://solana.com/news/x"})
    assert refused.status_code == 400 and "choose another source id" in refused.text
    assert await world.records(world.topics.news) == []


async def test_the_sample_is_no_button_where_judging_costs_money(world: World, serving: Serving) -> None:
    async with serving(newsproof_mode="live", google_api_key="x" * 40, tavily_api_key="tvly-x") as http:
        refused = await http.post(SAMPLE)
        assert (refused.status_code, "costs money" in refused.json()["error"]) == (409, True)
    assert await world.records(world.topics.news) == []


async def test_the_status_has_the_figures_of_the_pipeline_and_null_for_what_nobody_knows(
    world: World, serving: Serving
) -> None:
    async with serving() as http:
        await until_ready(http, world)
        unknown = (await http.get("/api/v1/status")).json()
        assert (unknown["news_last_hour"], unknown["news_waiting"], unknown["open_cases"]) == (0, 0, 0)
        assert (unknown["budget"], unknown["providers"]) == (None, [])
        assert "newsproof" in unknown["command"] or "run" in unknown["command"]
    limits = LimitsSet(
        monthly_usd=Decimal(40), triage_reserve_usd=Decimal(0), daily_units=50, allow_unpriced=False, by="0"
    )
    await world.producer.send_and_wait(world.topics.budget, encode(limits), partition=0)
    await world.publish(1, 2)
    worked = paid_call("a")
    failed = msgspec.structs.replace(
        worked, provider="down", reply=Failure(kind="timeout", message="10 s", retryable=True)
    )
    other = msgspec.structs.replace(failed, kind="scrape", provider="a page: says nothing of the next one")
    await open_case(world, 1, msgspec.structs.replace(TRIAGED, calls=(worked, failed, other)))
    async with serving() as http:
        await until_ready(http, world)
        known = (await http.get("/api/v1/status")).json()
    assert (known["news_last_hour"], known["news_waiting"], known["open_cases"]) == (2, 2, 1)
    assert known["budget"] == {"usd": 40, "of_usd": 40, "calls": 50, "of_calls": 50}
    at = "2026-01-01T00:00:00Z"
    assert known["providers"] == [
        {"kind": "model", "provider": "down", "at": at, "failing": "timeout", "since": at},
        {"kind": "model", "provider": "test", "at": at, "failing": None, "since": None},
    ]


async def test_lists_and_streams_are_filtered_by_verdict_action_source_sources_assets_and_words(
    world: World, serving: Serving
) -> None:
    asked = "verdict=likely&action=buy&source=WIRE&min_sources=2&asset=eth,%20BTC&q=YES%20上线"
    fits = {
        "verdict": "likely",
        "action": "buy",
        "news_source": "wire",
        "supporting_sources": 2,
        "summary_zh": "币安上线",
    }
    others = [
        {"verdict": "stale"}, {"action": "sell"}, {"news_source": "me"}, {"supporting_sources": 1}, {"asset": "SOL"},
        {"summary_zh": "下线"},
    ]  # fmt: skip
    async with serving() as http, streaming(http, f"/api/v1/stream?{asked}") as stream:
        await stream.connected()
        no = [signal("yes", **{**fits, **other, "signal_id": f"no{n}"}) for n, other in enumerate(others)]
        await write_signals(world.address, world.topics, *no, signal("yes", **fits))
        first = await stream.next()
        assert first is not None
        found = signal("yes", **fits).signal_id
        assert first.data["data"]["signal_id"] == found
        assert [one["signal_id"] for one in (await http.get(f"/api/v1/signals?{asked}")).json()["items"]] == [found]
        # A retraction whose words are others is sent to who was sent the signal.
        gone = signal("yes", **{**fits, "summary": "gone", "summary_zh": "", "revision": 2, "stage": "retracted"})
        await write_signals(world.address, world.topics, gone)
        later = await stream.next()
        assert later is not None
        assert later.data["data"]["revision"] == 2


async def test_a_case_is_found_by_the_names_that_the_command_knows(world: World, serving: Serving) -> None:
    case = await open_case(world, 1, TRIAGED, DROPPED, external_id="wire/1?a")
    twins = [await open_case(world, n, DROPPED, external_id="twin", source=f"s{n}") for n in (2, 3)]
    async with serving() as http:
        await until_ready(http, world)
        for name in (case[:8].upper(), "wire/1%3Fa", "wire:wire/1%3Fa"):
            assert (await http.get(f"/api/v1/cases/{name}")).json()["case_id"] == case, name
        assert (await http.get("/api/v1/cases/s2:twin")).json()["case_id"] == twins[0]
        several, none, short = [await http.get(f"/api/v1/cases/{name}") for name in ("twin", "nothing", case[:3])]
        assert (several.status_code, twins[0] in several.json()["do"], twins[1] in several.json()["do"]) == (
            409,
            True,
            True,
        )
        assert (none.status_code, short.status_code) == (404, 404)
        assert "'nothing'" in none.json()["error"]


async def test_a_wrong_address_is_a_page_to_a_browser_and_json_to_a_program(serving: Serving) -> None:
    async with serving() as http:
        program = await http.get("/nowhere")
        assert (program.status_code, set(program.json())) == (404, {"error", "do"})
        browser = await http.get("/nowhere/at/all", headers={"accept": "text/html,*/*"})
        assert (browser.status_code, browser.headers["content-type"]) == (404, "text/html; charset=utf-8")
        assert "main.js" in browser.text
        assert (await http.get(NEWS, headers={"accept": "text/html"})).status_code == 405
