"""Vectors of many texts at once are those of each text alone, bit by bit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from infra.clickhouse import vectors
from infra.clickhouse.vectors import Vectors, embed_all
from infra.embedding import embed

TEXTS = st.text(max_size=60) | st.sampled_from(
    ["", "a", "!!", "中", "BTC 比特币脱锚", "x" * 5000, "\ud800 broken", "😀 hi"]
)


@given(texts=st.lists(TEXTS, max_size=12))
def test_texts_embedded_together_have_the_vectors_that_each_has_alone(texts: list[str]) -> None:
    assert [vector.tolist() for vector in embed_all(texts)] == [embed(text) for text in texts]


def test_more_texts_than_are_embedded_at_once_keep_their_order() -> None:
    texts = [f"news number {n}" for n in range(2 * vectors.AT_ONCE + 1)]
    assert [vector.tolist() for vector in embed_all(texts)] == [embed(text) for text in texts]


def test_a_vector_that_was_handed_out_is_filled_afterwards() -> None:
    waiting = Vectors()
    first, second = waiting.of("Bitcoin ETF approved"), waiting.of("")
    assert not first
    waiting.fill()
    assert (list(first), list(second)) == (embed("Bitcoin ETF approved"), [])
