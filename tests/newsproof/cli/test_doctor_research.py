"""What doctor says of the chat's sources: none is asked for data, no key leaves, and none that is silent is an error."""

from __future__ import annotations

from typing import Any

import pytest

from infra.settings import Settings
from newsproof.cli.operate.doctor import check_chat_sources
from newsproof.cli.operate.live_calls import Check
from tests.infra.fakes.market import SOURCES
from tests.infra.fakes.server import FakeServer, HangUp, Say
from tests.newsproof.command import NOBODY_OUTSIDE

ADDRESSES = [f"{name}_base_url" for name in SOURCES]
KEYS = {f"{name}_api_key": f"key-of-{name}" for name in ("coingecko", "fred", "coinmetrics")}


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """How long it waits is for people; a loaded machine may need more."""
    monkeypatch.setattr("newsproof.cli.operate.doctor.WITHIN_S", 60.0)


def live(**values: Any) -> Settings:
    silent = {name.lower(): address for name, address in NOBODY_OUTSIDE.items()}
    return Settings(**{"_env_file": None, "newsproof_mode": "live", "gemini_api_key": "g", **silent, **values})


async def told(settings: Settings) -> dict[str, Check]:
    checks = await check_chat_sources(settings)
    found = {check.name.removeprefix("chat data (").split(",")[0]: check for check in checks}
    assert len(found) == len(checks)
    return found


async def test_every_source_is_asked_for_its_head_alone_and_no_key_goes_along() -> None:
    async with FakeServer(Say(status=404)) as server:
        at = {name: f"{server.url}/{name}" for name in ADDRESSES}
        found = await told(live(**at, **KEYS))
        asked = server.requests
    assert sorted(request.path[1:] for request in asked) == sorted(set(at) - {"fred_base_url"}), (
        "a key: FRED's API instead"
    )
    assert {request.method for request in asked} == {"HEAD"} and {request.body for request in asked} == {b""}
    assert not any("key-of" in str(request) for request in asked)
    assert {check.state for check in found.values()} == {"ok"}
    assert {check.found for check in found.values()} == {"reachable", "reachable, key is set (not tested here)"}


async def test_without_keys_it_says_which_ones_there_are_and_what_each_gives() -> None:
    async with FakeServer(Say()) as server:
        found = await told(live(**dict.fromkeys(ADDRESSES, server.url)))
        assert len(server.requests) == len(ADDRESSES) - 1, "one address of FRED's"
    assert {check.state for check in found.values()} == {"ok"}
    assert {name: check.do for name, check in found.items() if check.do} == {
        "CoinGecko": "optional: COINGECKO_API_KEY, for a higher rate limit",
        "FRED": "optional: FRED_API_KEY, for data as first published",
        "Coin Metrics": "optional: COINMETRICS_API_KEY, for commercial use",
    }
    assert found["CoinGecko"].found == "reachable, no key needed"


@pytest.mark.parametrize(
    ("behaviour", "says"),
    [
        (HangUp(), "no connection to Binance"),
        (Say(status=503), "returns status 503"),
        (Say(status=451), "returns status 451"),
    ],
)
async def test_a_source_that_does_not_serve_is_a_note_for_the_chat_goes_on_without_it(
    behaviour: Any, says: str
) -> None:
    async with FakeServer(behaviour) as server:
        found = await told(live(binance_base_url=server.url))
    assert found["Binance"].state == "note" and found["Binance"].found.startswith(says)
    assert "check the network" not in found["Binance"].found, "that is in the column of what to do"
    assert found["Coinbase"].state == "note" and "COINBASE_BASE_URL" in found["Coinbase"].do, "nobody listens there"


async def test_coin_metrics_that_is_switched_off_is_not_asked() -> None:
    async with FakeServer(Say()) as server:
        found = await told(live(coinmetrics_base_url=server.url, coinmetrics_enabled=False))
        assert server.requests == []
    assert (found["Coin Metrics"].state, found["Coin Metrics"].found) == ("note", "turned off")


@pytest.mark.parametrize(
    ("values", "setting"),
    [
        ({"coinbase_base_url": "ftp://x"}, "COINBASE_BASE_URL"),
        ({"coinmetrics_api_key": "two words"}, "COINMETRICS_API_KEY"),
    ],
)
async def test_what_the_chat_could_not_start_with_is_to_be_mended(values: dict[str, Any], setting: str) -> None:
    [check] = await check_chat_sources(live(**values))
    assert check.state == "missing" and setting in check.do and "two words" not in check.do


@pytest.mark.parametrize("mode", ["offline", "simulated"])
async def test_outside_of_live_mode_nobody_is_asked_and_what_stands_in_is_named(mode: str) -> None:
    async with FakeServer(Say()) as server:
        at = dict.fromkeys(ADDRESSES, server.url)
        [check] = await check_chat_sources(live(**at, newsproof_mode=mode))
        assert server.requests == []
    # Simulated mode has no figures of its own: both read the same invented ones.
    assert check.state == "note" and mode in check.found
