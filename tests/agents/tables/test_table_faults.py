"""What ``newsproof tables check`` finds: nothing in the tables as shipped, and every fault that is planted."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from agents.tables import load_tables, raw_tables
from agents.tables.faults import faults_of, file_faults
from schemas.config import Asset, Entity, Outlet, Platform, Tables

SHIPPED = load_tables(demo=True)
FEW = replace(
    SHIPPED,
    entities=tuple(e for e in SHIPPED.entities if e.name in {"Binance", "Coinbase", "Kraken"}),
    assets=tuple(a for a in SHIPPED.assets if a.ticker == "BTC"),
    outlets=tuple(o for o in SHIPPED.outlets if o.name == "Reuters"),
)
"""The rows that the planted ones collide with: all of them are read in a twentieth of a second."""


def test_the_shipped_tables_are_clean() -> None:
    assert faults_of(SHIPPED) == ()
    assert file_faults(raw_tables()) == ()


def entity(name: str = "Planted", **fields: Any) -> Tables:
    row = {"kind": "company", "domains": (f"{name.lower()}.test",), **fields}
    return replace(FEW, entities=(*FEW.entities, Entity(name=name, **row)))


def asset(ticker: str = "PLNT", **fields: Any) -> Tables:
    return replace(FEW, assets=(*FEW.assets, Asset(ticker=ticker, **{"name": "Planted Coin", **fields})))


def outlet(name: str = "Planted", domain: str = "planted.test", **fields: Any) -> Tables:
    return replace(FEW, outlets=(*FEW.outlets, Outlet(name=name, domain=domain, **fields)))


def words(table: str, key: str, *values: str) -> Tables:
    return replace(FEW, **{table: {**getattr(FEW, table), key: values}})


PLANTED = {
    "an entity's name twice": (entity("Binance"), "entities.json", "Binance", "the name 'Binance' is also Binance's"),
    "an alias of two": (entity(aliases=("币安",)), "entities.json", "Planted", "also Binance's"),
    "an alias in other characters": (entity(aliases=("幣安",)), "entities.json", "Planted", "also Binance's"),
    "an alias twice in a row": (entity(aliases=("Same", "same")), "entities.json", "Planted", "is there twice"),
    "a domain of two": (entity(domains=("binance.com",)), "entities.json", "Planted", "'binance.com' is also Binance's"),
    "a public body on a company's domain": (entity(kind="court", aliases=("某法院",), domains=("binance.com",)), "entities.json", "Planted", "binance.com is also Binance's"),
    "neither domain nor account": (entity(domains=()), "entities.json", "Planted", "neither domain nor account"),
    "an address for a domain": (entity(domains=("https://a.test/",)), "entities.json", "Planted", "is no domain"),
    "an unknown kind": (entity(kind="bank"), "entities.json", "Planted", "no kind 'bank'"),
    "an account of two": (entity(accounts=("x.com/binance",)), "entities.json", "Planted", "also Binance's"),
    "an account no address gives": (entity(accounts=("twitter.com/Planted",)), "entities.json", "Planted", "no address gives the account"),
    "an account off the platforms": (entity(accounts=("a.test/b",)), "entities.json", "Planted", "no address gives"),
    "a registrant of two": (entity(ciks=(1679788,)), "entities.json", "Planted", "also Coinbase's"),
    "a venue of two": (entity(ccxt=("kraken",)), "entities.json", "Planted", "also Kraken's"),
    "a ticker in small letters": (entity(assets=("plnt",)), "entities.json", "Planted", "small letters"),
    "an authority without a Chinese name": (entity(kind="regulator"), "entities.json", "Planted", "without a Chinese name"),
    "a demo row twice": (entity(synthetic=True, domains=("coinbase.example",)), "entities_demo.json", "Planted", "also Coinbase's"),
    "a ticker twice": (asset("BTC"), "assets.json", "BTC", "the ticker 'BTC' is also BTC's"),
    "a ticker that no text matches": (asset("PL NT"), "assets.json", "PL NT", "no text could ever match the ticker"),
    "a ticker in small letters that no text matches": (asset("plnt"), "assets.json", "plnt", "no text could ever"),
    "a name of two assets": (asset(aliases=("Bitcoin",)), "assets.json", "PLNT", "also BTC's"),
    "a name that is another's ticker": (asset(aliases=("Btc",)), "assets.json", "PLNT", "another asset's ticker"),
    "a name of one letter": (asset(aliases=("P",)), "assets.json", "PLNT", "no text could ever match the name"),
    "an asset without a name": (asset(name=""), "assets.json", "PLNT", "it has no name"),
    "a Chinese name in Latin": (asset(zh="Planted"), "assets.json", "PLNT", "is not Chinese"),
    "an issuer that is nobody": (asset(issuer="Nobody"), "assets.json", "PLNT", "is no entity"),
    "an issuer said twice": (replace(entity(assets=("PLNT",)), assets=asset(issuer="Planted").assets), "assets.json", "PLNT", "among its assets already"),
    "an outlet's name of two": (outlet(aliases=("路透",)), "outlets.json", "Planted", "also Reuters's"),
    "an outlet's domain of two": (outlet(domain="reuters.com"), "outlets.json", "Planted", "also Reuters's"),
    "an outlet without a domain": (outlet(domain="Planted"), "outlets.json", "Planted", "is no domain"),
    "a wire with a credibility": (outlet(wire=True, domain="forbes.com"), "credibility.json", "forbes.com", "a press wire"),
    "a platform's host of two": (replace(FEW, platforms=(*FEW.platforms, Platform(domain="new.test", hosts=("twitter.com",)))), "platforms.json", "new.test", "also x.com's"),
    "a host of two levels": (words("credibility", "planted", "reuters.com"), "credibility.json", "planted", "also high's"),
    "a host in capitals": (words("credibility", "planted", "A.test"), "credibility.json", "planted", "no host is"),
    "an empty list of words": (words("lexicon", "planted"), "lexicon.json", "planted", "an empty list"),
    "an event without words": (words("event_terms", "planted"), "event_terms.json", "planted", "an empty list"),
    "an authority that is nobody": (words("lexicon", "authority/Nobody", "US"), "lexicon.json", "authority/Nobody", "no entity"),
    "an ambiguous ticker of no asset": (words("lexicon", "ambiguous_tickers", "NOSUCH"), "lexicon.json", "ambiguous_tickers", "no asset's ticker"),
}  # fmt: skip


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_fault_is_named_with_its_file_its_row_and_what_to_do(planted: str) -> None:
    tables, file, row, what = PLANTED[planted]
    found = [f for f in faults_of(tables) if (f.file, f.row) == (file, row) and what in f.what]
    assert found and all(f.do for f in found), faults_of(tables)


def test_a_key_that_is_there_twice_and_a_field_that_does_not_exist_are_named() -> None:
    faults = file_faults(
        {
            "lexicon.json": b'{"a": ["x"], "b": [], "a": ["y"]}',
            "outlets.json": b'[{"name": "Planted", "domain": "a.test", "alias": ["b"]}]',
            "assets.json": b'[{"ticker": "PLNT", "zh": "x", "zh": "y"}]',
        }
    )
    assert [(f.file, f.row, f.what) for f in faults] == [
        ("assets.json", "PLNT", "'zh' is there twice"),
        ("lexicon.json", "a", "'a' is there twice"),
        ("outlets.json", "Planted", "there is no field 'alias'"),
    ]
