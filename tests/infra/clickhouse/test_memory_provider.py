"""Recall by a provider's vectors: paid once, recorded, compared with vectors of the same model alone."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from infra.clickhouse.client import Address, ClickHouse, connect
from infra.clickhouse.memory import ClickHouseMemory
from infra.models.embeddings.port import Embedded, packed, unpacked
from schemas import events as ev
from schemas.effects import Failure, Recall, RecallReply, TextEmbedding
from schemas.errors import TransientError
from tests.infra.clickhouse.clickhouse_samples import NOW, fill, record, seconds, signal
from tests.infra.fakes.embeddings import numbers, openai, openai_vectors

NEWS = "USDC 跌至 0.87 美元"


class Paid:
    """A provider that knows the vectors of some texts."""

    provider, model, rows = "acme", "vec-1", "acme:vec-1:3"

    def __init__(self, vectors: dict[str, list[int]]) -> None:
        self.vectors, self.asked = vectors, list[str]()
        self.fails: Exception | None = None

    async def embed(self, text: str) -> Embedded:
        self.asked.append(text)
        if self.fails:
            raise self.fails
        return Embedded(vector=self.vectors[text], cost_usd=Decimal("0.002"), cost_source="acme's list", input_tokens=9)

    def worst_case_usd(self, text: str) -> Decimal | None:
        return Decimal("0.003")

    async def close(self) -> None:
        pass


def remembered(case: str, text: str, made: TextEmbedding | None) -> Any:
    of = signal(signal_id=f"s-{case}", case_id=case, summary=f"sum of {case}")
    return record(ev.SignalSynthesized(signal=of, path="deep"), case=case, news_text=text, embedding=made)


def asking(text: str = NEWS, **fields: Any) -> Recall:
    given = {"text": text, "asset": "", "as_of": NOW + seconds(60), "limit": 5, "exclude_case": "me"}
    return Recall(**{**given, **fields})


async def test_a_case_is_remembered_by_the_vector_it_paid_for_and_by_the_free_one(clickhouse: ClickHouse) -> None:
    await fill(clickhouse, [remembered("a", NEWS, packed([127, 5, 0], Paid.rows, NEWS))])
    found = (await clickhouse.query("SELECT embedding_model, length(embedding) FROM memories ORDER BY ALL")).rows
    assert found == [(Paid.rows, 3), ("char-ngram-256-v2", 256)]


async def test_a_recall_is_paid_recorded_and_carries_the_vector_that_the_case_will_be_remembered_by(
    clickhouse: ClickHouse,
) -> None:
    await fill(clickhouse, [remembered("a", "in quite other words", packed([127, 0, 0], Paid.rows, "x"))])
    paid = Paid({NEWS: [127, 127, 0]})
    memory = ClickHouseMemory(clickhouse, mode="live", embedder=paid, timeout_s=30.0)
    assert (memory.provider, memory.worst_case_usd(asking())) == ("acme", Decimal("0.003"))
    answer = await memory.perform(asking())
    assert isinstance(answer.reply, RecallReply)
    assert [(e.case_id, e.similarity) for e in answer.reply.entries] == [("a", pytest.approx(0.5**0.5, abs=1e-6))]
    assert (answer.cost_usd, answer.cost_source, answer.model) == (Decimal("0.002"), "acme's list", "vec-1")
    assert (answer.usage_input_tokens, paid.asked) == (9, [NEWS])
    kept = answer.reply.embedding
    assert kept is not None
    assert (kept.model, unpacked(kept)) == (Paid.rows, [127, 127, 0])


async def test_the_same_words_under_another_model_match_nothing(clickhouse: ClickHouse) -> None:
    await fill(
        clickhouse, [remembered("a", NEWS, None), remembered("b", NEWS, packed([127, 0, 0], "acme:vec-0:3", NEWS))]
    )
    memory = ClickHouseMemory(clickhouse, embedder=Paid({NEWS: [127, 0, 0]}), timeout_s=30.0)
    reply = (await memory.perform(asking())).reply
    assert isinstance(reply, RecallReply)
    assert reply.entries == ()


async def test_a_provider_that_fails_is_not_replaced_by_the_free_vector(clickhouse: ClickHouse) -> None:
    await fill(clickhouse, [remembered("a", NEWS, None)])
    paid = Paid({})
    paid.fails = TransientError("acme is unavailable", kind="unavailable")
    with pytest.raises(TransientError, match="acme is unavailable"):
        await ClickHouseMemory(clickhouse, embedder=paid, timeout_s=30.0).perform(asking())


async def test_an_answer_that_is_no_vector_is_a_failure_whose_price_is_unknown(clickhouse: ClickHouse) -> None:
    async with openai(openai_vectors(numbers(1.0, dimensions=3))) as (embedder, _):
        answer = await ClickHouseMemory(clickhouse, embedder=embedder, timeout_s=30.0).perform(asking())
    assert isinstance(answer.reply, Failure)
    assert (answer.reply.kind, answer.cost_usd) == ("invalid_output", None)


async def test_nothing_is_paid_while_clickhouse_is_away(empty: ClickHouse) -> None:
    away = connect(Address(host="127.0.0.1", port=1), database="newsproof")
    paid = Paid({NEWS: [1, 0, 0]})
    answer = await ClickHouseMemory(away, embedder=paid, timeout_s=30.0).perform(asking())
    assert isinstance(answer.reply, Failure)
    assert (answer.reply.kind, answer.cost_usd, paid.asked) == ("unavailable", Decimal(0), [])


async def test_a_subjects_past_and_a_text_without_letters_cost_nothing(clickhouse: ClickHouse) -> None:
    paid = Paid({})
    memory = ClickHouseMemory(clickhouse, embedder=paid, timeout_s=30.0)
    for free in (asking("SEC", since=NOW - seconds(1)), asking("?!")):
        assert memory.worst_case_usd(free) == 0
        assert (await memory.perform(free)).cost_usd == 0
    assert paid.asked == []


async def test_a_subjects_past_lists_a_case_once_however_many_vectors_it_has(clickhouse: ClickHouse) -> None:
    await fill(clickhouse, [remembered("a", NEWS, packed([127, 0, 0], Paid.rows, NEWS))])
    reply = (await ClickHouseMemory(clickhouse, timeout_s=30.0).perform(asking("sum", since=NOW - seconds(9)))).reply
    assert isinstance(reply, RecallReply)
    assert [e.case_id for e in reply.entries] == ["a"]
