"""What a call may cost at most: the bound must hold for any tokenizer, and nothing unknown passes for free."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from infra.models.call_costs import Prices, TokenUsage, most_input_tokens
from infra.models.gemini import GeminiModel
from infra.models.gemini_client import GeminiClient
from infra.models.gemini_parameters import output_limit
from infra.models.untrusted import explain, new_mark, render
from infra.offline.model import OfflineModel
from infra.offline.search import OfflineSearch
from infra.offline.simulated import Simulated
from infra.search.arxiv import ArxivSearch
from infra.search.bocha import BochaSearch
from infra.search.tavily import TavilySearch
from schemas.effects import CallModel, Search, Trusted, Untrusted
from tests.infra.fakes import gemini as fake
from tests.infra.fakes.gemini import ASK, FORCED, STRUCTURED, gemini
from tests.infra.fakes.server import Say

SEARCH = Search(provider="tavily", query="q", max_results=5, as_of=datetime(2026, 1, 1, tzinfo=UTC))
TEXTS = ("", "plain words of a news item " * 400, "某交易所将上线代币" * 500, "🚀" * 300, "[[untrusted\n" * 200)


def asking(text: str, parts: int = 3) -> CallModel:
    return replace(ASK, system=text[:500], parts=(Trusted("Judge:"), *[Untrusted("news", text)] * parts))


def model(name: str = "gemini-2.5-pro") -> GeminiModel:
    return GeminiModel(GeminiClient(api_key="AIza-secret"), model=name, prices=Prices())


@pytest.mark.parametrize("text", TEXTS, ids=["empty", "english", "chinese", "emoji", "forged marks"])
def test_the_input_is_bounded_by_the_bytes_of_what_is_really_sent(text: str) -> None:
    effect, mark = asking(text), new_mark()
    sent = [effect.system, explain(mark), *render(effect.parts, mark)]
    # The shortest token of a forged mark's replacement stands for two bytes at least, as any word of plain English.
    shortest = 2 if "untrusted" in text else 1
    assert most_input_tokens(effect) >= sum(len(one.encode()) for one in sent) / shortest


@pytest.mark.parametrize("effect", [ASK, FORCED, STRUCTURED], ids=["text", "function", "structure"])
@pytest.mark.parametrize("name", ["gemini-3.8-flash", "gemini-2.5-pro", "gemini-2.5-flash-lite"])
async def test_a_call_that_uses_all_that_it_may_costs_what_was_reserved_and_no_more(
    effect: CallModel, name: str
) -> None:
    limit = output_limit(name, effect.max_output_tokens, "high")
    effect = replace(effect, thinking="high")
    used = {
        "promptTokenCount": most_input_tokens(effect),
        "candidatesTokenCount": effect.max_output_tokens // 4,
        "thoughtsTokenCount": limit - effect.max_output_tokens // 4,
    }
    body: Any = fake.text("{}", finish="MAX_TOKENS", usageMetadata=used, modelVersion=name)
    assert isinstance(body, Say)
    async with gemini(body, model=name) as (port, server):
        answer = await port.perform(effect)
        assert server.requests[0].json["generationConfig"]["maxOutputTokens"] == limit > effect.max_output_tokens
        worst = port.worst_case_usd(effect)
        assert port.quota_units(effect) == 0
    assert answer.cost_usd is not None and worst is not None
    assert answer.cost_usd == worst, "thinking is billed as output and counts within max_output_tokens"


async def test_a_longer_prompt_and_a_larger_answer_may_cost_more() -> None:
    port = model()
    small, longer = port.worst_case_usd(asking("a")), port.worst_case_usd(asking("a" * 9000))
    larger = port.worst_case_usd(replace(asking("a"), max_output_tokens=9000))
    assert small is not None and longer is not None and larger is not None
    assert 0 < small < min(longer, larger)
    await port.close()


def test_a_worst_case_is_at_least_the_price_of_any_use_within_it() -> None:
    prices, at = Prices(), datetime(2026, 3, 1, tzinfo=UTC)
    worst = prices.worst_case_usd("gemini-2.5-pro", 5000, 1000, at=at)
    for usage in (
        TokenUsage(input=5000, output=1000),
        TokenUsage(input=5000, cached=5000, output=300, thinking=700),
        TokenUsage(input=10, thinking=1000),
    ):
        cost = prices.cost("gemini-2.5-pro", usage, at).usd
        assert worst is not None and cost is not None and cost <= worst


async def test_a_search_takes_one_unit_and_the_credits_of_its_depth() -> None:
    tavily = TavilySearch(api_key="tvly-k", unit_cost_usd=Decimal("0.008"))
    unknown = TavilySearch(api_key="tvly-k")
    bocha = BochaSearch(api_key="k", unit_cost_usd=Decimal("0.005"))
    assert tavily.worst_case_usd(SEARCH) == Decimal("0.008")
    assert tavily.worst_case_usd(replace(SEARCH, depth="advanced")) == Decimal("0.016")
    assert unknown.worst_case_usd(SEARCH) is None
    assert bocha.worst_case_usd(SEARCH) == Decimal("0.005")
    assert {p.quota_units(SEARCH) for p in (tavily, unknown, bocha)} == {1}
    for port in (tavily, unknown, bocha):
        await port.close()


async def test_what_nobody_bills_is_free_and_unmetered() -> None:
    arxiv = ArxivSearch()
    for port in (OfflineModel(), OfflineSearch(), Simulated(), arxiv):
        assert (port.worst_case_usd(SEARCH), port.quota_units(SEARCH)) == (0, 0)
    await arxiv.close()


def test_a_simulated_provider_is_metered_only_where_it_is_asked_to_be() -> None:
    metered = Simulated(cost_usd=Decimal("0.002"), metered=True)
    assert (metered.worst_case_usd(SEARCH), metered.quota_units(SEARCH)) == (Decimal("0.002"), 1)
    assert (metered.worst_case_usd(ASK), metered.quota_units(ASK)) == (Decimal("0.002"), 0)
