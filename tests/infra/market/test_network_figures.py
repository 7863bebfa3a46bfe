"""What happens on an asset's chain: each source once, one value a name, and no figure that nobody has."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from infra.ports import Port
from schemas.effects import Failure, FetchMarket, MarketReply, Reply
from tests.infra.fakes import market as fake
from tests.infra.fakes.market import AS_OF, asked, days, epoch, known_name, research
from tests.infra.fakes.server import Behaviour, HangUp, Reset, Say

CHARTS: dict[str, Behaviour] = {
    "/charts/n-unique-addresses": fake.chart(*days(500_000.0, 510_000.0), ("2024-06-05", 9.0)),
    "/charts/n-transactions": fake.chart(*days(400_000.0)),
    "/charts/estimated-transaction-volume-usd": fake.chart(*days(8e9)),
    "/charts/mvrv": fake.chart(*days(2.1)),
    "/charts/hash-rate": fake.chart(*days(6e8)),
}
DOLLARS = [
    {"date": str(epoch(day)), "totalCirculatingUSD": {"peggedUSD": v, "peggedEUR": 1e9}} for day, v in days(1e11)
]
FLOWS = [
    {"time": day, "FlowInExUSD": f"{100 + n}.5", "FlowOutExUSD": "90.5", "CapMVRVCur": "9.9", "AdrActCnt": None}
    for n, (day, _) in enumerate(days(*range(8)))
]


async def network(ports: dict[str, Port], asset: str = "BTC") -> Reply:
    answer = await ports["market"].perform(FetchMarket(kind="network", asset=asset, as_of=AS_OF))
    assert answer.cost_usd == 0
    assert msgspec.json.decode(msgspec.json.encode(answer.reply), type=Reply) == answer.reply
    if isinstance(answer.reply, MarketReply):
        assert all(known_name("network", v.name) for v in answer.reply.values)
        assert len({v.name for v in answer.reply.values}) == len(answer.reply.values)
    return answer.reply


def figures(reply: Reply) -> dict[str, float]:
    assert isinstance(reply, MarketReply), reply
    return {v.name: v.value for v in reply.values}


def unknown(reply: Reply) -> dict[str, str]:
    assert isinstance(reply, MarketReply), reply
    return {name: why for name, _, why in (line.partition(": ") for line in reply.unknown)}


async def test_bitcoin_has_figures_of_every_source() -> None:
    async with research(
        blockchain_info=CHARTS,
        defillama_stablecoins=Say(DOLLARS),
        coinmetrics=fake.coinmetrics("btc", *FLOWS),
    ) as (ports, servers):
        reply = await network(ports)
        metrics = asked(servers["coinmetrics"].requests[0])
        assert servers["defillama_stablecoins"].requests[0].path == "/stablecoincharts/all"
    told = figures(reply)
    assert {name: told[name] for name in told if not name.endswith("_1d")} == {
        "active_addresses": 510_000.0,  # the 5th is not over
        "transactions_per_day": 400_000.0,
        "transfer_volume_usd": 8e9,
        "mvrv": 2.1,  # of blockchain.info, which stands before Coin Metrics
        "hash_rate": 6e8,
        "stablecoin_supply_total": 1.01e11,
        "exchange_inflow": 107.5,  # half a day after its end a day is known where nobody says when it was
        "exchange_outflow": 90.5,
        "exchange_netflow": 17.0,
        "exchange_netflow_7d": 98.0,
    }
    assert told["active_addresses_change_1d"] == 2.0
    assert metrics["assets"] == "btc" and "FlowInExUSD,FlowOutExUSD" in metrics["metrics"]
    assert "api_key" not in metrics


async def test_a_day_is_known_when_coin_metrics_says_that_it_was_complete() -> None:
    at = datetime(2024, 6, 5, 9, 30, tzinfo=UTC)
    last = {**FLOWS[-1], "AssetEODCompletionTime": str(int(at.timestamp()))}
    late = {**FLOWS[-1], "AssetEODCompletionTime": str(int((AS_OF + timedelta(minutes=1)).timestamp()))}
    for row, inflow in ((last, 107.5), (late, 106.5)):
        async with research(coinmetrics=fake.coinmetrics("btc", *FLOWS[:-1], row)) as (ports, _):
            reply = await network(ports)
        assert figures(reply)["exchange_inflow"] == inflow
        assert isinstance(reply, MarketReply)
        [value] = [v for v in reply.values if v.name == "exchange_inflow"]
        assert value.observed_at == (at if row is last else datetime(2024, 6, 4, 12, tzinfo=UTC))


async def test_coin_metrics_steps_in_where_a_chart_fails() -> None:
    charts = {**CHARTS, "/charts/mvrv": fake.DOWN}
    async with research(blockchain_info=charts, coinmetrics=fake.coinmetrics("btc", *FLOWS)) as (ports, _):
        reply = await network(ports)
    assert figures(reply)["mvrv"] == 9.9
    assert isinstance(reply, MarketReply)
    assert any(line.startswith("network: blockchain.info mvrv failed") for line in reply.unknown)


async def test_another_chain_has_what_is_locked_on_it_and_its_stablecoins() -> None:
    tvl = Say([{"date": epoch(day), "tvl": v} for day, v in days(50e9, 51e9, last="2024-06-05")])
    covered = [{"time": day, "AdrActCnt": "480000", "TxCnt": "1200000"} for day, _ in days(1, 2)]
    async with research(
        defillama=tvl,
        defillama_stablecoins=Say(DOLLARS),
        coinmetrics=fake.coinmetrics("eth", *covered),
    ) as (ports, servers):
        reply = await network(ports, "eth")
        assert servers["defillama_stablecoins"].requests[0].path == "/stablecoincharts/Ethereum"
        assert servers["blockchain_info"].requests == []
    told = figures(reply)
    assert (told["chain_tvl"], told["stablecoin_supply"]) == (51e9, 1.01e11)
    assert told["active_addresses"] == 480_000.0
    assert unknown(reply)["exchange_netflow"] == "coinmetrics has none of ETH"
    assert "no source that responded has it for ETH" in unknown(reply)["mvrv"]


async def test_an_asset_that_nobody_covers_has_no_figures_and_says_so() -> None:
    none = Say(
        {"error": {"type": "bad_parameter", "message": "Bad parameter 'assets'. Value 'xyz' is not supported."}}, 400
    )
    async with research(coinmetrics=none) as (ports, _):
        reply = await network(ports, "XYZ")
    assert figures(reply) == {}
    told = unknown(reply)
    assert told["network"] == "coinmetrics does not cover XYZ"
    assert {"active_addresses", "mvrv", "exchange_netflow"} <= set(told)


async def test_with_every_source_of_flows_off_it_is_said_what_to_set() -> None:
    async with research(settings={"coinmetrics_enabled": False}, blockchain_info=CHARTS) as (ports, servers):
        reply = await network(ports)
        assert servers["coinmetrics"].requests == []
    assert "COINMETRICS_ENABLED" in unknown(reply)["exchange_netflow"]
    async with research(settings={"coinmetrics_enabled": False}) as (ports, _):
        nobody = await network(ports, "XYZ")
    assert isinstance(nobody, MarketReply) and nobody.unknown == ("network: no source here knows XYZ",)


async def test_a_key_of_coin_metrics_goes_into_its_parameters() -> None:
    async with research(settings={"coinmetrics_api_key": "metrics-secret"}, blockchain_info=CHARTS) as (ports, servers):
        await network(ports)
        assert asked(servers["coinmetrics"].requests[0])["api_key"] == "metrics-secret"


async def test_stale_figures_are_unknown() -> None:
    old = {"": fake.chart(*days(1.0, 2.0, last="2024-05-20"))}
    flows = [{**row, "time": day} for row, (day, _) in zip(FLOWS, days(*range(8), last="2024-05-20"), strict=True)]
    async with research(blockchain_info=old, coinmetrics=fake.coinmetrics("btc", *flows)) as (ports, _):
        reply = await network(ports)
    assert figures(reply) == {}
    assert {"active_addresses", "mvrv", "hash_rate", "exchange_netflow"} <= set(unknown(reply))


@pytest.mark.parametrize(
    "behaviour",
    [
        Say(b"<html></html>"),
        Say({"data": "x"}),
        Say({"data": [{"time": "yesterday"}]}),
        Say({"error": {"type": "bad_parameter", "message": "Bad parameter 'metrics'."}}, status=400),
        Say({"error": {"type": "forbidden"}}, status=403),
        Say(b"", status=429, headers={"retry-after": "6"}),
        Reset(),
        HangUp(),
    ],
    ids=lambda one: type(one).__name__,
)
async def test_a_source_that_fails_is_named_and_the_others_stay(behaviour: Any) -> None:
    async with research(blockchain_info=CHARTS, coinmetrics=behaviour) as (ports, _):
        reply = await network(ports)
    assert figures(reply)["hash_rate"] == 6e8
    assert isinstance(reply, MarketReply)
    assert any(line.startswith("network: coinmetrics failed") for line in reply.unknown)


async def test_that_all_sources_failed_is_a_failure() -> None:
    async with research() as (ports, servers):
        reply = await network(ports)
        assert len(servers["coinmetrics"].requests) == 1
    assert isinstance(reply, Failure) and (reply.kind, reply.retryable) == ("unavailable", True)
