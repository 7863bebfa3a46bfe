"""The tables that a person edits: complete, consistent, and read as written."""

from __future__ import annotations

import json
from importlib import resources

import pytest

from agents.evidence import Claim, entities_in
from agents.evidence.compiled import compiled
from agents.tables import load_tables
from agents.tables.faults import KINDS
from agents.text.hosts import registrable_domain
from schemas.config import Tables

REAL, DEMO = load_tables(demo=False), load_tables(demo=True)


def test_the_official_table_is_large_has_every_kind_and_only_registrable_domains() -> None:
    assert len(REAL.entities) >= 150
    assert {e.kind for e in REAL.entities} == KINDS
    assert [d for e in DEMO.entities for d in e.domains if registrable_domain(d) != d] == []


def test_synthetic_entries_come_with_the_demo_only_and_lie_on_reserved_hosts() -> None:
    assert not any(e.synthetic for e in REAL.entities)
    assert not any(d.endswith(".example") for e in REAL.entities for d in e.domains)
    added = [e for e in DEMO.entities if e.synthetic]
    assert added and all(d.endswith(".example") for e in added for d in e.domains)
    # The authorities of the investigated subjects are invented whole: no real one is to be said to have banned anything.
    assert {e.name for e in added} - {"Norland Data Authority", "Norland Markets Office"} <= {
        e.name for e in REAL.entities
    }
    assert not any(o.domain.endswith(".example") for o in REAL.outlets)
    outlets = [o for o in DEMO.outlets if o not in REAL.outlets]
    assert any(o.wire for o in outlets) and all(o.domain.endswith(".example") for o in outlets)


def test_the_files_of_rows_keep_one_a_line() -> None:
    for name in ("entities", "entities_demo", "assets", "outlets", "outlets_demo", "platforms"):
        lines = resources.files("agents.tables").joinpath(f"{name}.json").read_text("utf-8").splitlines()
        assert len([json.loads(line.rstrip(",")) for line in lines[1:-1]]) == len(lines) - 2, name


def test_entities_are_found_by_whole_names_in_zh_and_en() -> None:
    expected = {
        "币安创始人赵长鹏与 SEC 达成和解": ["Binance", "US Securities and Exchange Commission"],
        "DMM Bitcoin 被盗": ["DMM Bitcoin"],
        "中国人民银行发布通知": ["People's Bank of China"],
        "binance lists a coin": ["Binance"],
        "it took thirty sec to circle the block": [],
        "Circle confirms": ["Circle"],
        "Coinbases of miners": [],
    }
    assert {text: [e.name for e in entities_in(text, REAL)] for text in expected} == expected


@pytest.mark.parametrize(
    ("text", "event_type", "asset", "official", "other"),
    [
        ("Binance pleads guilty, to pay over $4.3B", "regulation", "BNB", "justice.gov", "sfc.hk"),
        ("BlackRock files for a spot Bitcoin ETF", "listing", "BTC", "sec.gov", "cftc.gov"),
        ("香港批准现货以太坊 ETF", "regulation", "ETH", "sfc.hk", "sec.gov"),
        ("Judge rules XRP sales are not securities", "regulation", "XRP", "uscourts.gov", "pbc.gov.cn"),
        ("Kraken adds token LUM", "listing", "LUM", "kraken.com", "sec.gov"),
        ("Tether freezes wallets", "regulation", "USDT", "tether.to", "ethereum.org"),
        ("Ethereum completes the Merge", "product", "ETH", "ethereum.org", "sec.gov"),
        ("Do Kwon sentenced to 15 years in prison", "regulation", "LUNA", "justice.gov", "sfc.hk"),
        ("SafeMoon 前 CEO 被判处 8 年监禁", "regulation", "SFM", "justice.gov", "sfc.hk"),
        ("금융정보분석원, 업비트 영업 일부정지", "regulation", "UNKNOWN", "kofiu.go.kr", "sec.gov"),
        ("金融庁、暗号資産の規制を見直し", "regulation", "UNKNOWN", "fsa.go.jp", "sec.gov"),
        ("Bybit lists NOVA despite an SEC warning", "listing", "NOVA", "bybit.com", "sec.gov"),
    ],
)
def test_only_parties_and_competent_authorities_speak_officially(
    text: str, event_type: str, asset: str, official: str, other: str
) -> None:
    from datetime import UTC, datetime

    claim = Claim(text=text, language="en", event_type=event_type, asset=asset, as_of=datetime(2024, 6, 3, tzinfo=UTC))
    speakers = {d for e in compiled(REAL).entities.speaking(claim) for d in e.domains}
    assert official in speakers
    assert other not in speakers


def test_equal_tables_are_compiled_once_and_empty_ones_work() -> None:
    copy = Tables(**{f: getattr(REAL, f) for f in REAL.__struct_fields__})
    assert copy is not REAL
    assert compiled(copy) is compiled(REAL)
    assert compiled(Tables()).entities.mentioned("Binance") == ()


def test_the_authorities_that_the_lexicon_names_are_of_places_that_it_knows() -> None:
    places = {k.split("/", 1)[1] for k in REAL.lexicon if k.startswith("jurisdiction/")}
    silent = [k for k, cues in REAL.lexicon.items() if k.startswith("authority/") and not places & set(cues)]
    assert silent == []
