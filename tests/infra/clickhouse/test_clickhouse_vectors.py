"""Vectors of many texts at once are those of each text alone, bit by bit."""

from __future__ import annotations

import json
from hashlib import sha256
from importlib import resources

from hypothesis import given
from hypothesis import strategies as st

from infra.clickhouse.rows import Vectors
from infra.models.embeddings.hashing import AT_ONCE, embed, embed_all

TEXTS = st.text(max_size=60) | st.sampled_from(
    ["", "a", "!!", "中", "BTC 比特币脱锚", "x" * 5000, "\ud800 broken", "😀 hi"]
)


@given(texts=st.lists(TEXTS, max_size=12))
def test_texts_embedded_together_have_the_vectors_that_each_has_alone(texts: list[str]) -> None:
    assert [vector.tolist() for vector in embed_all(texts)] == [embed(text) for text in texts]


def test_more_texts_than_are_embedded_at_once_keep_their_order() -> None:
    texts = [f"news number {n}" for n in range(2 * AT_ONCE + 1)]
    assert [vector.tolist() for vector in embed_all(texts)] == [embed(text) for text in texts]


def test_the_vectors_of_the_sample_are_those_that_memories_were_written_with() -> None:
    sample = resources.files("infra.offline.sample").joinpath("history.jsonl").read_text("utf-8").splitlines()
    written = json.dumps([embed(json.loads(line)["text"]) for line in sample])
    assert sha256(written.encode()).hexdigest() == "e288617c15735f4b36250475cc6f445b588ee39574f2647b9d66bd32656a069c"


def test_a_vector_that_was_handed_out_is_filled_afterwards() -> None:
    waiting = Vectors()
    first, second = waiting.of("Bitcoin ETF approved"), waiting.of("")
    assert not first
    waiting.fill()
    assert (list(first), list(second)) == (embed("Bitcoin ETF approved"), [])
