"""Quality control: the score and its parts, widths, near-duplicates."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.evidence.credibility import CredibilityTable
from agents.evidence.quality import quality_score, timeliness
from agents.tables import load_tables
from agents.text.matching import Shape, near_duplicates, width
from schemas.evidence import SearchResult

NOW = datetime(2024, 6, 3, tzinfo=UTC)
TABLE = CredibilityTable(load_tables(demo=False).credibility)


@pytest.mark.parametrize(("text", "columns"), [("abc", 3), ("辟谣", 4), ("ＡＢ", 4), (" a中 ", 3)])
def test_wide_characters_count_two(text: str, columns: int) -> None:
    assert width(text) == columns


def test_timeliness_falls_from_a_hundred_to_sixty() -> None:
    ages = [
        timedelta(0),
        timedelta(hours=6),
        timedelta(days=1),
        timedelta(days=30),
        timedelta(days=365),
        timedelta(days=1827),
    ]
    points = [timeliness(NOW - age, NOW) for age in ages]
    assert points[0] == 100 and points[-1] == 60
    assert points == sorted(points, reverse=True)
    assert len(set(points)) == len(points)


@pytest.mark.parametrize(
    ("host", "level"),
    [
        ("www.sec.gov", "high"), ("www.pbc.gov.cn", "high"), ("arxiv.org", "high"), ("cs.mit.edu", "high"),
        ("www.coindesk.com", "medium"), ("zhuanlan.zhihu.com", "low"), ("blog.csdn.net", "low"),
        ("news.example", "unknown"), ("sec.gov.example", "unknown"),
    ],
)  # fmt: skip
def test_credibility_comes_from_the_domain_table(host: str, level: str) -> None:
    assert TABLE.of(host, official=False) == level
    assert TABLE.of(host, official=True) == "high"


@given(st.text(max_size=300), st.text(max_size=40), st.floats(-1, 2), st.none() | st.integers(0, 4000), st.booleans())
def test_the_score_stays_between_30_and_100(
    content: str, title: str, score: float, days: int | None, complete: bool
) -> None:
    page = SearchResult(
        title=title, url="https://a.example", domain="", snippet=content, score=score, content_complete=complete
    )
    at = None if days is None else NOW - timedelta(days=days)
    assert 30 <= quality_score(page, "unknown", at, NOW) <= 100


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ("An anonymous insider claims that the token will be added next week. Coinbase has not commented.",
         "An anonymous insider claims the token will be added next week. Coinbase has not yet commented on it.", True),
        ("据悉该协议宣布完成 5000 万美元 B 轮融资, 由两家知名机构领投, 资金将用于团队扩张与产品研发。",
         "据悉,该协议宣布完成5000万美元B轮融资,由两家知名机构领投,资金用于团队扩张和产品研发。", True),
        ("美国证券交易委员会周一对交易所提起诉讼,指控其未经注册经营证券业务并误导客户。",
         "美国证监会宣布起诉该交易所, 称其在没有牌照的情况下为客户提供证券交易服务。", False),
        ("The exchange said in an announcement on Monday that spot trading of the token starts at noon.",
         "Data compiled by a publication shows volumes in the token rose ninefold after the listing.", False),
        ("Binance will list Nova today.", "Binance will list Orbit today.", False),
    ],
)  # fmt: skip
def test_edited_copies_are_one_text_and_independent_reports_are_not(a: str, b: str, same: bool) -> None:
    assert near_duplicates(Shape(a), Shape(b)) is same
    assert near_duplicates(Shape(b), Shape(a)) is same
