"""The wire shapes of Bocha, RAGFlow, Arxiv, GDELT and SearXNG, and their adapters against fakes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from decimal import Decimal
from typing import Any

from infra.ports import Port
from infra.search.arxiv import ArxivSearch
from infra.search.bocha import BochaSearch
from infra.search.gdelt import GdeltSearch
from infra.search.pace import Pace
from infra.search.ragflow import RagflowSearch
from infra.search.searxng import SearxngSearch
from schemas.effects import Search
from tests.infra.fakes.server import Behaviour, FakeServer, Say, against
from tests.infra.fakes.tavily import AS_OF

ZH = Search(provider="any", query="币安 上线 某代币 官方公告", max_results=5, as_of=AS_OF, language="zh")
PAPERS = Search(provider="arxiv", query="USDC stablecoin stability run model", max_results=5, as_of=AS_OF)


def bocha_page(**changes: Any) -> dict[str, Any]:
    full: dict[str, Any] = {
        "id": None,
        "name": "币安上线某代币",
        "url": "https://www.binance.com/zh-CN/support/announcement/1",
        "displayUrl": "https://www.binance.com/zh-CN/support/announcement/1",
        "snippet": "币安将上线某代币。",
        "summary": "官方公告:币安将于今日上线某代币,并开放交易对。",
        "siteName": "币安",
        "datePublished": "2024-11-12T16:00:00+08:00",
        "dateLastCrawled": "2024-11-12T16:00:00Z",
        "language": None,
    }
    return {**full, **changes}


def bocha_results(*pages: Any, query: str = "q") -> Say:
    found = {"webSearchUrl": "", "totalEstimatedMatches": 9, "value": list(pages), "someResultsRemoved": False}
    data = {"_type": "SearchResponse", "queryContext": {"originalQuery": query}, "webPages": found, "images": None}
    return Say({"code": 200, "log_id": "d71841ad20095f61", "msg": None, "data": data})


def bocha_error(code: int, message: str, *, status: int | None = None, headers: dict[str, str] | None = None) -> Say:
    """Return an error as Bocha words it; its code is text."""
    body = {"code": str(code), "message": message, "log_id": "c66aac17eab1bb7e"}
    return Say(body, status=code if status is None else status, headers=headers or {})


def ragflow_chunk(**changes: Any) -> dict[str, Any]:
    full: dict[str, Any] = {
        "id": "d78435d142bd5cf6704da62c778795c5",
        "content": "The desk's note: the exchange lists tokens on Tuesdays.",
        "document_id": "5c5999ec7be811ef9cab0242ac120005",
        "document_keyword": "desk notes.pdf",
        "dataset_id": "C7EE74067A2C11EF",
        "highlight": "",
        "positions": [""],
        "similarity": 0.9669,
        "term_similarity": 1.0,
        "vector_similarity": 0.89,
    }
    return {**full, **changes}


def ragflow_chunks(*chunks: Any) -> Say:
    data = {"chunks": list(chunks), "doc_aggs": [], "total": len(chunks)}
    return Say({"code": 0, "data": data, "message": "success"})


def ragflow_error(code: int, message: str = "said the fake") -> Say:
    return Say({"code": code, "message": message})


def paper(**changes: str) -> str:
    full = {
        "id": "http://arxiv.org/abs/2305.01234v2",
        "published": "2024-05-02T17:59:59Z",
        "title": "A run model\n  of USDC",
        "summary": "  We model a stablecoin run\n and its stability. ",
    }
    fields = "".join(f"<{k}>{v}</{k}>" for k, v in {**full, **changes}.items())
    return f"<entry>{fields}<updated>2025-01-01T00:00:00Z</updated><author><name>A</name></author></entry>"


def feed(*entries: str, status: int = 200) -> Say:
    head = '<?xml version="1.0" encoding="UTF-8"?><feed xmlns="http://www.w3.org/2005/Atom">'
    more = (
        '<opensearch:totalResults xmlns:opensearch="http://a9.com/-/spec/opensearch/1.1/">1</opensearch:totalResults>'
    )
    text = f"{head}<title>arXiv Query</title><id>https://arxiv.org/api/x</id>{more}{''.join(entries)}</feed>"
    return Say(text.encode(), status=status, headers={"content-type": "application/atom+xml; charset=utf-8"})


def arxiv_error(why: str, status: int = 400) -> Say:
    return feed(
        paper(id=f"https://arxiv.org/api/errors#{why.replace(' ', '_')}", title="Error", summary=why), status=status
    )


EVENT = Search(provider="gdelt", query="Circle USDC depeg 脱锚", max_results=5, as_of=AS_OF, language="zh")


def article(**changes: Any) -> dict[str, Any]:
    """Return one article of GDELT's list (https://blog.gdeltproject.org/gdelt-doc-2-0-api-debuts/)."""
    full: dict[str, Any] = {
        "url": "https://www.coindesk.com/markets/usdc-depeg",
        "url_mobile": "",
        "title": "Circle Says USDC Reserves Are Whole , Depeg Eases",
        "seendate": "20241112T083000Z",
        "socialimage": "https://www.coindesk.com/a.jpg",
        "domain": "coindesk.com",
        "language": "English",
        "sourcecountry": "United States",
    }
    return {**full, **changes}


def articles(*items: Any) -> Say:
    """Return GDELT's response; without results, it is an empty object."""
    headers = {"content-type": "application/json; charset=utf-8"}
    return Say({"articles": list(items)} if items else {}, headers=headers)


def gdelt_says(text: str, status: int = 200, headers: dict[str, str] | None = None) -> Say:
    """Return an error as GDELT words it: plain text, mostly with 200."""
    as_html = {"content-type": "text/html; charset=utf-8", **(headers or {})}
    return Say(f"{text}\n".encode(), status=status, headers=as_html)


TOO_FAST = "Please limit requests to one every 5 seconds or contact us for larger queries."


def searxng_page(**changes: Any) -> dict[str, Any]:
    """Return one result as ``MainResult.as_dict`` of searx/result_types/_base.py gives it."""
    full: dict[str, Any] = {
        "url": "https://www.coindesk.com/markets/usdc",
        "title": "Circle denies depeg rumour",
        "content": "Circle said in an official statement that the reserves of USDC are whole.",
        "publishedDate": "2024-11-12T08:00:00",
        "engine": "bing news",
        "engines": ["bing news", "reuters"],
        "parsed_url": ["https", "www.coindesk.com", "/markets/usdc", "", "", ""],
        "template": "default.html",
        "img_src": "",
        "thumbnail": "",
        "priority": "",
        "positions": [1, 3],
        "score": 2.6666,
        "category": "news",
    }
    return {**full, **changes}


def searxng_results(*items: Any, silent: tuple[tuple[str, str], ...] = (), query: str = "q") -> Say:
    more: dict[str, Any] = {"answers": [], "corrections": [], "infoboxes": [], "suggestions": []}
    body = {"query": query, "number_of_results": 0, "results": list(items), **more}
    return Say({**body, "unresponsive_engines": [list(one) for one in silent]})


class FakeTime:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


def pace(time: FakeTime | None = None, *, max_wait_s: float = 1e6) -> Pace:
    time = time or FakeTime()
    return Pace("Arxiv", interval_s=3.0, max_wait_s=max_wait_s, clock=time, sleep=time.sleep)


ADAPTERS: dict[str, Callable[..., Port]] = {
    "bocha": lambda url, **given: BochaSearch(
        **{"base_url": url, "api_key": "sk-secret", "unit_cost_usd": Decimal("0.005"), **given}
    ),
    "ragflow": lambda url, **given: RagflowSearch(
        **{"endpoint": url, "api_key": "ragflow-secret", "dataset_ids": ["C7EE74067A2C11EF"], **given}
    ),
    "arxiv": lambda url, **given: ArxivSearch(**{"base_url": url, "pace": pace(), **given}),
    "gdelt": lambda url, **given: GdeltSearch(**{"base_url": url, "pace": pace(), "now": lambda: AS_OF, **given}),
    "searxng": lambda url, **given: SearxngSearch(**{"base_url": url, "now": lambda: AS_OF, **given}),
}
"""(address of a server, settings) → the adapter."""


def searching(name: str, *script: Behaviour, **settings: Any) -> AbstractAsyncContextManager[tuple[Port, FakeServer]]:
    """Return the adapter of a provider against a fake server."""
    return against(ADAPTERS[name], *script, **{"timeout_s": 60.0, **settings})
