"""The API of bots: what the log says that each holds, sent and refused; a halt, and its end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from infra.bots.definition import BotDefinition
from newsproof.app.processes.bots_view import BotsReader
from schemas.deliveries import Attempted, DeliveryRecord, Planned, Settled
from streams.bots.writer import DeliveryWriter
from tests.newsproof.signal_samples import signal, write_signals
from tests.newsproof.web.conftest import Serving
from tests.streams.world import World

BOTS, AT = "/api/v1/bots", datetime.now(UTC)
NOWHERE = dict.fromkeys(("coinbase_base_url", "binance_base_url"), "http://127.0.0.1:1")


def delivery(
    id: str, outcome: Any, reason: str = "", entry: str | None = None, of: str = "", **more: Any
) -> list[DeliveryRecord]:
    planned = Planned(
        id=id, bot="desk", adapter="paper", instrument=f"{id[:3]}/USDT", intent="exit" if entry else "enter", entry=entry,
        signal_id=of or f"signal-{id}", revision=1, asset=id[:3], reason="retracted" if entry else "buy", planned_at=AT,
        valid_until=AT + timedelta(days=1), mode="paper", side="long",
    )  # fmt: skip
    tried: list[DeliveryRecord] = [] if outcome == "skipped" else [Attempted(delivery=id, bot="desk", n=1)]
    return [planned, *tried, Settled(delivery=id, bot="desk", outcome=outcome, reason=reason, **more)]


async def test_bots_are_listed_from_file_and_log_and_a_halt_needs_no_right_file(
    world: World, serving: Serving, tmp_path: Path
) -> None:
    file = tmp_path / "bots.toml"
    writer = DeliveryWriter(world.address, world.topics, "desk")
    await writer.start()
    try:
        async with serving(bots_file=file, **NOWHERE) as http:
            assert (await http.get("/bots")).status_code == 200
            none = (await http.get(BOTS)).json()
            assert (none["items"], none["halts"], none["wrong"]) == ([], [], None)
            await writer.append([("k", one) for one in delivery("SOL", "delivered", price=100.0, fee=0.001)])
            await writer.append([("k", one) for one in delivery("ETH", "unknown", "the answer was lost")])
            file.write_text('[desk]\nkind = "paper"\nmap = { SOL = "SOL/USDT" }\n[idle]\nkind = "notify"\n')
            desk, idle = (await http.get(BOTS)).json()["items"]
            assert [(one["instrument"], one["outcome"], one["exit"]) for one in desk["positions"]] == [
                ("SOL/USDT", "delivered", None), ("ETH/USDT", "unknown", None),
            ]  # fmt: skip
            assert (desk["defined"], desk["process"], desk["paper"]["closed"]) == (True, None, 0)
            assert (idle["name"], idle["deliveries"], idle["paper"], idle["desired"]) == ("idle", [], None, None)

            for made in (  # read on from there
                delivery("SOL-exit", "delivered", entry="SOL", price=110.0, fee=0.001),
                delivery("ETH-exit", "refused", "market is closed", entry="ETH"),
                delivery("BTC", "skipped", "confidence 0.61 is below 0.70"),
            ):
                await writer.append([("k", one) for one in made])
            desk = (await http.get(BOTS)).json()["items"][0]
            (eth,) = desk["positions"]
            assert (eth["exit"]["state"], eth["exit"]["reason"], eth["exit"]["attempts"]) == ("refused", "market is closed", 1)  # fmt: skip
            assert round(desk["paper"]["profit"], 4) == 0.0979 and desk["paper"]["trades"][0]["exit_price"] == 110
            newest = desk["deliveries"][0]
            assert (newest["state"], newest["reason"]) == ("skipped", "confidence 0.61 is below 0.70")

            file.write_text("[desk]\nkind = 1\n")
            wrong = (await http.get(BOTS)).json()
            assert "[desk]" in wrong["wrong"] and [one["defined"] for one in wrong["items"]] == [False]
            refusals: list[tuple[dict[str, Any], int]] = [
                ({"bot": "nobody"}, 404),
                ({}, 400),
                ({"bot": "desk", "exits": True}, 400),
            ]
            for body, status in refusals:
                assert (await http.post(f"{BOTS}/halt", json=body)).status_code == status, body
            for path, wanted, own, everyone in (
                ("halt", {"bot": "desk", "exit": True}, [True], []),
                ("halt", {"bot": None}, [True], [False]),
                ("resume", {"bot": "desk"}, [], [False]),
                ("resume", {"bot": None}, [], []),
            ):
                assert (await http.post(f"{BOTS}/{path}", json=wanted)).status_code == 200
                found = (await http.get(BOTS)).json()
                assert [one["exit"] for one in found["items"][0]["halts"]] == own, wanted
                assert (found["items"][0]["halted_by"] is not None) == bool(own or everyone), wanted
                assert [one["exit"] for one in found["halts"]] == everyone, wanted
                assert {one["by"] for one in found["halts"]} <= {"the web service"}
    finally:
        await writer.stop()


async def test_what_signals_ask_of_a_bot_is_beside_what_it_holds_and_a_price_that_is_not_known_is_said(
    world: World, serving: Serving, tmp_path: Path
) -> None:
    file = tmp_path / "bots.toml"
    writer = DeliveryWriter(world.address, world.topics, "desk")
    await writer.start()
    try:
        file.write_text('[desk]\nkind = "paper"\nmap = { SOL = "SOL/USDT" }\n[idle]\nkind = "notify"\n')
        async with serving(bots_file=file, **NOWHERE) as http:
            await writer.append([("k", one) for one in delivery("SOL", "delivered", price=100.0, fee=0.001)])
            await writer.append([("k", one) for one in delivery("ETH", "unknown", "the answer was lost")])
            desk, _ = (await http.get(BOTS)).json()["items"]
            assert (desk["open"], desk["entries_today"], desk["desired"]) == (2, 2, [])
            # No exchange answers here, and that is said in place of a price.
            sol, eth = desk["positions"]
            assert (sol["paper"]["entry_price"], sol["paper"]["mark"], sol["paper"]["profit"]) == (100.0, None, None)
            assert "coinbase failed" in sol["paper"]["no_mark"] and eth["paper"] is None
            assert (desk["paper"]["open"], desk["paper"]["open_profit"]) == (1, None)

            wanted = {"provider_mode": "live", "action": "buy", "risk_flags": (), "valid_until": AT + timedelta(days=1)}
            orders = [signal(asset, asset=asset, **wanted) for asset in ("SOL", "ADA", "XRP")]
            await write_signals(world.address, world.topics, *orders)
            assets = "{ SOL = 'SOL/USDT', ADA = 'ADA/USDT' }"
            file.write_text(f'[desk]\nkind = "paper"\nmap = {assets}\n[idle]\nkind = "notify"\n')
            await writer.append(
                [("k", one) for one in delivery("ADA", "skipped", "3 positions are open", of=orders[1].signal_id)]
            )
            desk, _ = (await http.get(BOTS)).json()["items"]
            assert [(one["instrument"], one["side"], one["held"], one["reason"]) for one in desk["desired"]] == [
                ("ADA/USDT", "long", False, "3 positions are open"), ("SOL/USDT", "long", True, ""),
            ]  # fmt: skip
            slow = BotsReader(world.address, world.topics, {}, desired_within_s=0.0)
            hasty, _ = await slow.items({"web": BotDefinition(name="web", kind="webhook")}, {})
            assert (hasty["desired"], hasty["name"]) == (None, "web"), "not known yet, and listed nevertheless"

            gone = {"stage": "retracted", "revision": 2}
            await write_signals(world.address, world.topics, signal("ADA", asset="ADA", **wanted | gone))
            desk, _ = (await http.get(BOTS)).json()["items"]
            assert [one["instrument"] for one in desk["desired"]] == ["SOL/USDT"]

            assert (await http.post(f"{BOTS}/halt", json={"bot": "idle"})).status_code == 200
            assert (await http.get(BOTS)).json()["items"][1]["halted_by"] == "the web service"
            await http.post(f"{BOTS}/resume", json={"bot": "idle"})
    finally:
        await writer.stop()
