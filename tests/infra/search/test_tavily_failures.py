from __future__ import annotations

import pytest

from infra.search.tavily import TavilySearch
from schemas.errors import ConfigError, PermanentError, TransientError
from tests.infra.fakes import tavily as fake
from tests.infra.fakes.server import Flood
from tests.infra.fakes.tavily import SEARCH, tavily


@pytest.mark.parametrize(
    ("status", "kind", "transient", "hint"),
    [
        (403, "auth", False, "TAVILY_API_KEY"),
        (404, "invalid_request", False, "correct"),
        (408, "timeout", True, "unavailable"),
    ],
)
async def test_a_status_becomes_a_kind_with_a_way_out(status: int, kind: str, transient: bool, hint: str) -> None:
    async with tavily(fake.error(status, "quota of words")) as (search, server):
        with pytest.raises(TransientError if transient else PermanentError) as caught:
            await search.perform(SEARCH)
    assert (caught.value.kind, caught.value.status) == (kind, status)
    assert hint in str(caught.value)
    assert "secret" not in str(caught.value)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("0.5", 0.5), ("-3", 0.0), ("soon", None), ("inf", None), ("nan", None), ("Wed, 01 Jan 2020 00:00:00 GMT", 0.0)],
)
async def test_retry_after_is_the_providers_own_wish(header: str, seconds: float | None) -> None:
    async with tavily(fake.error(429, headers={"retry-after": header})) as (search, _):
        with pytest.raises(TransientError) as caught:
            await search.perform(SEARCH)
    assert caught.value.retry_after_s == seconds


async def test_searches_one_after_another_share_a_connection() -> None:
    async with tavily(fake.results()) as (search, server):
        for _ in range(3):
            await search.perform(SEARCH)
    assert (len(server.requests), server.connections) == (3, 1)


async def test_a_huge_error_page_does_not_hide_its_status() -> None:
    async with tavily(Flood(status=503), max_response_bytes=100_000) as (search, _):
        with pytest.raises(TransientError) as caught:
            await search.perform(SEARCH)
    assert (caught.value.kind, caught.value.status) == ("unavailable", 503)


async def test_closing_twice_is_harmless_and_a_later_search_says_so() -> None:
    async with tavily(fake.results()) as (search, _):
        await search.close()
        await search.close()
        with pytest.raises(PermanentError) as caught:
            await search.perform(SEARCH)
    assert caught.value.kind == "internal"


@pytest.mark.parametrize("key", ["", "  ", "“quoted”", "two words", "line\nbreak"])
def test_a_key_that_cannot_be_one_is_refused_at_the_start_by_its_setting(key: str) -> None:
    with pytest.raises(ConfigError, match="TAVILY_API_KEY"):
        TavilySearch(api_key=key)


@pytest.mark.parametrize("address", ["api.tavily.com", "ftp://x", "http://[::1", "http://"])
def test_an_address_that_cannot_be_one_is_refused_at_the_start_by_its_setting(address: str) -> None:
    with pytest.raises(ConfigError, match="TAVILY_BASE_URL"):
        TavilySearch(api_key="k", base_url=address)
