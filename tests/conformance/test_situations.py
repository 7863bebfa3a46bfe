from __future__ import annotations

import pytest

from schemas.effects import Failure
from tests.conformance.driving import PROVIDERS, Outcome, outcome
from tests.conformance.rows import UNTIL, Must, Row
from tests.conformance.situations import ROWS

CASES = [
    pytest.param(row, provider, id=f"{row.name}-{provider}".replace(" ", "_"))
    for row in ROWS
    for provider in row.providers
]


@pytest.mark.filterwarnings("ignore:.* is not a valid FinishReason")
@pytest.mark.parametrize(("row", "provider"), CASES)
async def test_the_product_does_what_the_table_says(row: Row, provider: str) -> None:
    got = await outcome(provider, row)
    assert (len(got.server.requests), len(got.server.refusals)) == (row.requests, row.refused), got.server.refusals
    check_answer(got, row)
    check_cost(got, row.must)
    check_breaker(got, row.must)


def check_answer(got: Outcome, row: Row) -> None:
    reply, must = got.call.reply, row.must
    if must.kind == "reply":
        assert not isinstance(reply, Failure), reply
        assert row.reply is None or row.reply(reply), reply
        return
    assert isinstance(reply, Failure), reply
    assert (reply.kind, reply.retryable) == (must.kind, must.again), reply
    assert [word for word in must.says if word not in reply.message] == [], reply.message
    assert "secret" not in reply.message and "another-key" not in reply.message
    if must.until:
        assert reply.retry_after_s is not None
        assert abs(UNTIL[must.until]() - reply.retry_after_s) < 10
    else:
        assert reply.retry_after_s == must.wait_s


def check_cost(got: Outcome, must: Must) -> None:
    free = got.worst_usd == 0
    if must.cost == "billed":
        assert got.call.cost_usd == got.server.billed_usd
        assert len(got.server.bills) == 1
        assert got.worst_usd is not None
        assert free or 0 < got.server.billed_usd <= got.worst_usd
    elif must.cost == "nothing":
        assert (got.call.cost_usd, got.server.billed_usd) == (0, 0)
    elif free:
        assert got.call.cost_usd in (None, 0)
    else:
        assert got.call.cost_usd is None


def check_breaker(got: Outcome, must: Must) -> None:
    if got.breaker is None:
        return
    state = "open" if must.breaker == "opens" else "closed"
    assert (got.breaker.state, got.breaker.failures) == (state, 0 if must.breaker == "closed" else 1)


def test_every_provider_is_asked_in_some_row_and_every_row_has_a_name_of_its_own() -> None:
    assert {provider for row in ROWS for provider in row.providers} == set(PROVIDERS)
    names = [(row.name, provider) for row in ROWS for provider in row.providers]
    assert len(names) == len(set(names))
