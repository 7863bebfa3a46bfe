"""BM25 over texts that come and go: what was dropped weighs nothing, in English and Chinese."""

from __future__ import annotations

import pytest

from infra.search.bm25 import Bm25

TEXTS = (
    "Circle says USDC reserves held at Silicon Valley Bank",
    "Circle 表示 33 亿美元储备金存放于硅谷银行",
    "Bybit cold wallet hacked, 1.4 billion dollars of ether stolen",
    "Bybit 冷钱包遭黑客攻击,14 亿美元以太坊被盗",
    "Weekly letter: markets were calm",
)


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("Circle USDC reserves bank", 0),
        ("硅谷银行 储备金", 1),
        ("Bybit wallet hack stolen", 2),
        ("Bybit 冷钱包 被盗", 3),
    ],
)
def test_the_text_that_tells_it_comes_first(query: str, first: int) -> None:
    index = Bm25()
    for text in TEXTS:
        index.add(text)
    scores = dict(index.rank(query))
    assert max(scores, key=lambda number: scores[number]) == first and scores[first] >= 0.6
    assert all(0 < score <= 1 for score in scores.values()) and 4 not in scores
    index.drop(first)
    assert first not in dict(index.rank(query)) and len(index) == len(TEXTS) - 1


def test_after_many_came_and_went_it_ranks_as_if_they_had_never_been_there() -> None:
    long_lived, fresh = Bm25(), Bm25()
    for number in range(300):
        long_lived.add(f"USDC bank holiday of number {number}")
    kept = [long_lived.add(text) for text in TEXTS]
    for number in range(300):
        long_lived.drop(number)
    for text in TEXTS:
        fresh.add(text)
    for query in ("Circle USDC bank", "Bybit 冷钱包"):
        ranked = {kept.index(number): score for number, score in long_lived.rank(query)}
        assert ranked == pytest.approx(dict(fresh.rank(query)), abs=0.1), "but for the last few, which go later"
    assert len(long_lived) == len(TEXTS)
