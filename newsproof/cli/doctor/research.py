"""Checks of the research chat's data sources for ``newsproof doctor``: whether each answers, and what a key would add.

A check sends one HEAD request to the source's address: no data, no key, no charge. A source that does not answer is
only a note, because the chat continues without it and names it in its answers.
"""

from __future__ import annotations

import asyncio

import msgspec

from infra.http import guarded_client
from infra.http_json import Service, exchange
from infra.settings import Settings
from newsproof.cli.doctor.check import Check
from schemas.errors import ConfigError, NewsproofError

WITHIN_S = 5.0
_REFUSES_THE_PLACE = 451


class Place(msgspec.Struct, frozen=True):
    """One data source. ``address`` and ``key`` are names of settings; ``gives`` says what the key adds."""

    name: str
    about: str
    address: str
    key: str = ""
    gives: str = ""


COIN_METRICS = Place(
    "Coin Metrics", "exchange flows, activity", "coinmetrics_base_url", "coinmetrics_api_key", "commercial use"
)
FRED_API = Place("FRED API", "the economy", "fred_api_base_url", "fred_api_key", "data as first published")
FRED = msgspec.structs.replace(FRED_API, name="FRED", address="fred_base_url")
PLACES = (
    Place("Coinbase", "prices and bars", "coinbase_base_url"),
    Place("Binance", "the same, if Coinbase has no market", "binance_base_url"),
    Place(
        *("CoinGecko", "prices that no exchange has", "coingecko_base_url", "coingecko_api_key"),
        "a higher rate limit",
    ),
    FRED,
    FRED_API,
    Place("alternative.me", "fear and greed", "fear_greed_base_url"),
    Place("blockchain.info", "Bitcoin activity", "blockchain_info_base_url"),
    Place("DefiLlama", "value locked per chain", "defillama_base_url"),
    Place("DefiLlama stablecoins", "stablecoins", "defillama_stablecoins_base_url"),
    COIN_METRICS,
)


async def chat_sources(settings: Settings) -> list[Check]:
    """Return one check per source of live mode; in other modes the one check that names what replaces them."""
    if settings.mode != "live":
        found = f"synthetic data, labelled {settings.mode}: no outside source is called"
        return [Check(name="chat data", state="note", found=found, do="live mode uses real data; no key is needed")]
    try:
        await _made(settings)
    except ConfigError as exc:
        return [Check(name="chat data", state="missing", found="an address or a key is invalid", do=str(exc))]
    return list(await asyncio.gather(*(_check(place, settings) for place in PLACES if not _replaced(place, settings))))


async def _made(settings: Settings) -> None:
    from infra.market.research.ports import live_research

    for port in live_research(settings).values():
        await port.close()


def _replaced(place: Place, settings: Settings) -> bool:
    """FRED has two addresses; the key decides which one is used."""
    return place is (FRED if settings.fred_api_key else FRED_API)


async def _check(place: Place, settings: Settings) -> Check:
    name = f"chat data ({place.name}, {place.about})"
    has_key = bool(place.key and getattr(settings, place.key))
    if place is COIN_METRICS and not settings.coinmetrics_enabled:
        return Check(
            name=name, state="note", found="turned off", do="set COINMETRICS_ENABLED=true (non-commercial use)"
        )
    key = "" if not place.key else ", key is set (not tested here)" if has_key else ", no key needed"
    try:
        status = await _status(place, getattr(settings, place.address))
    except NewsproofError as exc:
        do = f"check the network, or correct {place.address.upper()}; the chat continues without it and says so"
        return Check(name=name, state="note", found=f"{str(exc).partition(';')[0]}{key}", do=do)
    if status >= 500 or status == _REFUSES_THE_PLACE:
        why = "it does not serve this network" if status == _REFUSES_THE_PLACE else "it is down"
        return Check(
            name=name, state="note", found=f"returns status {status}{key}", do=f"nothing: {why}, and the chat says so"
        )
    return Check(
        name=name, state="ok", found=f"reachable{key}", do=_optional(place) if place.key and not has_key else ""
    )


async def _status(place: Place, address: str) -> int:
    service = Service(name=place.name, address_setting=place.address.upper())
    async with guarded_client(address, timeout_s=WITHIN_S) as client:
        return (await exchange(client, client.build_request("HEAD", address), service, WITHIN_S)).status_code


def _optional(place: Place) -> str:
    return f"optional: {place.key.upper()}, for {place.gives}"
