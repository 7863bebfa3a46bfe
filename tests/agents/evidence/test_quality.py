"""Quality control: the score and its parts, widths, near-duplicates."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agents.evidence.claim import Claim
from agents.evidence.compiled import CredibilityTable
from agents.evidence.findings import assess
from agents.evidence.quality import quality_score, timeliness, weak_results
from agents.tables import load_tables
from agents.text.matching import Shape, near_duplicates, width
from schemas.config import Snapshot
from schemas.evidence import Findings, SearchResult
from tests import builders

NOW = datetime(2024, 6, 3, tzinfo=UTC)
TABLE = CredibilityTable(load_tables(demo=False).credibility)


def test_wide_characters_count_two() -> None:
    expected = {"abc": 3, "辟谣": 4, "ＡＢ": 4, " a中 ": 3}
    assert {text: width(text) for text in expected} == expected


def test_timeliness_falls_from_a_hundred_to_sixty() -> None:
    ages = [timedelta(days=days) for days in (0, 0.25, 1, 30, 365, 1827)]
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
    page = builders.search_result("https://a.example", content, title=title, score=score, content_complete=complete)
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


CLAIM = Claim(text="Binance lists PEPE", language="en", event_type="listing", asset="PEPE", entity="Binance", as_of=NOW)
OLD = Snapshot(tables=load_tables(demo=False))
LIVE = replace(OLD, quality_floors={"tavily": 0.5, "gdelt": 0.7}, quality_widths={"tavily": 50, "gdelt": 20})
TEXTS = (
    "Binance opens spot trading of PEPE this afternoon, the exchange writes on its announcement page.",
    "Traders of the frog coin cheer: PEPE has come to the biggest venue, Binance, and volume grows ninefold.",
    "An order book for PEPE went live at noon, said a spokesman of Binance to the reporters who asked him.",
)


def hit(n: int, score: float, provider: str = "tavily", text: str | None = None) -> SearchResult:
    told = TEXTS[n % 3] if text is None else text
    return builders.search_result(f"https://house{n}.example/a", told, title=f"No. {n}", score=score, provider=provider)


def judged(*answers: list[SearchResult], snapshot: Snapshot = LIVE) -> Findings:
    hits = [r for answer in answers for r in answer]
    return assess(CLAIM, hits, query="q", snapshot=snapshot, weak=weak_results(answers, snapshot))


def kept(found: Findings) -> set[str]:
    return {r.registrable_domain for r in found.references}


def test_the_floor_is_a_share_of_the_best_score_of_each_answer_and_without_floors_it_is_that_of_before() -> None:
    low = judged([hit(0, 0.42), hit(1, 0.30), hit(2, 0.2)])
    assert kept(low) == {"house0.example", "house1.example"}
    assert [(d.url, d.reason) for d in low.dropped] == [("https://house2.example/a", "low_relevance")]
    assert kept(judged([hit(0, 0.98), hit(1, 0.48)])) == {"house0.example"}
    assert kept(judged([hit(0, 0.98)], [hit(1, 0.30)])) == {"house0.example", "house1.example"}, "another answer"
    assert kept(judged([hit(0, 0.5, "gdelt"), hit(1, 0.34, "gdelt"), hit(2, 0.36, "gdelt")])) == {
        "house0.example",
        "house2.example",
    }
    assert "house1.example" in kept(judged([hit(0, 0.98), hit(1, 0.3)], [hit(1, 0.3)]))
    assert kept(judged([hit(0, 0.0, "gdelt"), hit(1, 0.0, "gdelt")])) == set()
    assert kept(judged([hit(0, 0.61), hit(1, 0.59)], snapshot=OLD)) == {"house0.example"}
    assert kept(judged([hit(0, 0.61, "offline"), hit(1, 0.59, "offline")])) == {"house0.example"}


def test_a_title_is_enough_text_where_the_provider_gives_titles_alone() -> None:
    title = "Binance Lists PEPE Today"
    assert kept(judged([hit(0, 0.9, "gdelt", title)])) == {"house0.example"}
    assert [d.reason for d in judged([hit(0, 0.9, "tavily", title)]).dropped] == ["too_short"]
    assert [d.reason for d in judged([hit(0, 0.9, "gdelt", "Binance PEPE")]).dropped] == ["too_short"]


def test_how_many_are_kept_and_what_counts_as_one_text_are_bounds_of_the_snapshot() -> None:
    three = [hit(n, 0.9) for n in range(3)]
    assert len(judged(three, snapshot=replace(LIVE, quality_keep=2)).references) == 2
    a = "Binance will open spot trading of PEPE on Monday at noon, the exchange said in a notice to its users."
    b = "Binance opens spot trading of PEPE on Monday at noon, said the exchange in a notice to all users today."
    pair = [hit(0, 0.9, text=a), hit(1, 0.9, text=b)]
    assert len(kept(judged(pair))) == 1
    assert len(kept(judged(pair, snapshot=replace(LIVE, quality_same_text=1.0)))) == 2
