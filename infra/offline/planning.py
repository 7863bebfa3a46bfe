"""The offline model's plans: which tools to call with which arguments, by rules over the words of the news."""

from __future__ import annotations

import re
from typing import Any

from infra.offline import lexicon as lx
from infra.offline.rules import entity_of, event_type_of, is_zh, keywords_of

_SENTENCE = re.compile(r"[。!?!?;;\n]+|\.\s+(?=[A-Z])")
_TAKES_BACK = re.compile(r"\bfake\b|\bdenie[sd]\b|\bno relationship\b|\bhoax\b|否认|辟谣|不实|虚假", re.IGNORECASE)
_AGAIN = re.compile(r"\bagain\b|\bonce more\b|\bsecond time\b|再次|又一次|再度", re.IGNORECASE)
_WITH_PEERS = frozenset({"listing", "partnership", "product", "funding"})
_MANY_CLAIMS = 3
_ENOUGH_SOURCES = 3
"""Independent pages about the claim that are enough to be judged, as the planning prompt has it."""


def plan_of(
    news: str, facts: dict[str, Any], offered: list[str], *, page_words: str, remembered: bool, urls: list[str]
) -> dict[str, Any]:
    """Return the arguments of ``decide_next_tools``.

    ``offered`` are the available tools, ``page_words`` the keywords of an expansion, ``remembered`` whether a past case is
    nearly the same, ``urls`` the URLs of references that are not opened yet.
    """
    kind, searches = str(facts.get("event_type") or event_type_of(news)), facts.get("searches", 0)
    if facts.get("related_sources", 0) >= _ENOUGH_SOURCES or searches >= 2:
        return _arguments([], [], "", "the evidence is enough, or two searches were made")
    if remembered and not searches:
        return _arguments([], [], "", "a past case is nearly the same")
    numbers = ["price_check", "onchain_check"] if kind in ("depeg", "liquidation") else []
    tasks = _first_round(news, facts, kind) if not searches else _later(news, urls)
    tasks = [t for t in tasks if t["tool"] in offered]
    wanted = ["search", *numbers, *(t["tool"] for t in tasks)]
    tools = [t for t in dict.fromkeys(wanted) if t in offered]
    # With a search per claim, the main search takes the first claim.
    main = next((t for t in tasks if t["tool"] == "search"), None)
    keywords = main["query"] if main else keywords_of(news, kind, entity_of(news), extra=page_words)
    return _arguments(
        tools,
        tasks,
        keywords if "search" in tools else "",
        f"offline rules: look for sources on a claim of type {kind}",
    )


def _arguments(tools: list[str], tasks: list[dict[str, Any]], keywords: str, reason: str) -> dict[str, Any]:
    return {"tools": tools, "search_keywords": keywords, "reason": reason, **({"tasks": tasks} if tasks else {})}


def _first_round(news: str, facts: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    entity, query = entity_of(news), keywords_of(news, kind, entity_of(news))
    tasks = _claim_by_claim(news, kind) if facts.get("claims", 1) >= _MANY_CLAIMS else []
    if lx.HEDGES.search(news):
        platforms = ["wechat", "zhihu"] if is_zh(news) else ["x", "reddit"]
        tasks.append(_task("platform_search", news, query=query, platforms=platforms, time_range="month"))
    if _TAKES_BACK.search(news):
        tasks.append(_task("memory_search", news, query=query, subject=entity, detect_changes=True))
    if _AGAIN.search(news):
        tasks.append(_task("timeline_query", news, subject=entity, days=365))
    if kind in _WITH_PEERS and entity:
        tasks.append(_task("competitor_lookup", news, name=entity))
    return tasks


def _later(news: str, urls: list[str]) -> list[dict[str, Any]]:
    mood = [_task("analyze_sentiment", news, texts=["references"], extract_opinions=True)]
    return [*(_task("web_scrape", news, url=url) for url in urls[:1]), *(mood if lx.HEDGES.search(news) else [])]


def _claim_by_claim(news: str, kind: str) -> list[dict[str, Any]]:
    sentences = [" ".join(s.split()) for s in _SENTENCE.split(news) if len(s) > len("too short")]
    asked = [(s, keywords_of(s, kind, entity_of(s))) for s in sentences]
    return [_task("search", sentence, query=query) for sentence, query in asked[:_MANY_CLAIMS]]


def _task(tool: str, claim: str, **arguments: Any) -> dict[str, Any]:
    return {"claim": " ".join(claim.split())[:120], "tool": tool, **arguments}
