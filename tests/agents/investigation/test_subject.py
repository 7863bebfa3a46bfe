"""Which news concern the subject of a watch."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from agents.investigation.subject import SubjectMatcher
from agents.tables import load_tables
from tests.plain_graph import DRAFT

TABLES = load_tables(demo=False)
NOBODYS = replace(DRAFT, asset="UNKNOWN", entity=None)


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        ("Monitor Binance's latest developments", "币安将暂停提币"),
        ("Ethereum upgrade", "以太坊基金会推迟升级"),
        ("关注Zyphra的最新进展", "Zyphra denies a new model"),
        ("zyphra", "传ZYPHRA将发币"),
        ("稳定币监管", "香港金管局就穩定幣的監管发布条例"),
    ],
)
def test_news_that_name_its_entity_its_asset_or_its_words_concern_a_subject(subject: str, text: str) -> None:
    assert SubjectMatcher(subject, TABLES).matches(text, NOBODYS)


def test_what_triage_found_counts_and_other_news_do_not() -> None:
    watched = SubjectMatcher("Ethereum upgrade", TABLES)
    assert watched.matches("The merge is near", replace(NOBODYS, asset="ETH"))
    assert not watched.matches("Binance lists ZK", NOBODYS)
    assert SubjectMatcher("Binance", TABLES).matches("It lists ZK", replace(NOBODYS, entity="Binance"))
    assert not SubjectMatcher("稳定币监管", TABLES).matches("监管机构起诉一家交易所", NOBODYS)
    assert not SubjectMatcher("Zyphra listing", TABLES).matches("Zyphra has a new model", NOBODYS)
