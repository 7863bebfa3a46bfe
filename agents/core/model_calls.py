"""Builders of the news pipeline's model calls. Our own words are trusted parts; everything else is untrusted and bounded.

The chat's builders are in :mod:`agents.research.agent_calls`; they use :func:`bounded`, :func:`call_of` and :func:`facts`.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable
from typing import Any, get_args

import msgspec

from agents.core.case import Case
from agents.core.inquiry import Inquiry
from agents.core.step import StepFailure
from agents.prompts import render
from schemas.config import Prompt
from schemas.effects import CallModel, EarlierClaim, Failure, FunctionDeclaration, Part, Trusted, Untrusted
from schemas.events import PagesScraped, SearchCompleted
from schemas.evidence import Findings, MemoryEntry, SearchReference, SearchResult
from schemas.signals import EventType

MAX_NEWS_CHARACTERS = 20_000
"""Characters of one news item that a model reads. The log keeps the whole text."""
MAX_KEYWORDS_HIT_CHARACTERS = 400
MAX_REFERENCE_CHARACTERS = 600
MAX_PASSAGE_CHARACTERS = 2_000
MAX_PAGE_CHARACTERS = 6_000
HEAVY_ABOVE_CHARACTERS = 5_000
"""Characters from outside above which the heavy model is called, whatever the prompt's tier."""
EVENT_TYPES = ", ".join(get_args(EventType))


def ask_model(
    case: Inquiry,
    prompt_name: str,
    parts: Iterable[Part],
    *,
    functions: tuple[FunctionDeclaration, ...] = (),
    forced_function: str | None = None,
    **values: str,
) -> CallModel:
    """Build the call of one prompt, in the version that the case's snapshot pins.

    ``values`` fill the prompt's fields and must be our own words.

    Raises:
        StepFailure: (not retryable) when the snapshot holds no such prompt.
    """
    prompt = case.config.prompts.get(prompt_name)
    if prompt is None:
        raise StepFailure(
            Failure(
                kind="not_configured",
                message=f"the case's snapshot has no prompt {prompt_name!r}: build snapshots with load_prompts()",
                retryable=False,
            )
        )
    asked = call_of(prompt, render(prompt, language=case.language, event_types=EVENT_TYPES, **values), parts)
    return msgspec.structs.replace(asked, functions=functions, forced_function=forced_function)


def call_of(prompt: Prompt, system: str, parts: Iterable[Part]) -> CallModel:
    """Return the call of a prompt by its front matter; of the heavy model if there is much text from outside.

    ``system``: the prompt's text, rendered.
    """
    content = tuple(parts)
    size = sum(len(p.text) for p in content if isinstance(p, Untrusted))
    return CallModel(
        task=prompt.name,
        tier="heavy" if size > HEAVY_ABOVE_CHARACTERS else prompt.tier,
        prompt_name=prompt.name,
        prompt_version=prompt.version,
        prompt_hash=prompt.hash,
        system=system,
        parts=content,
        temperature=prompt.temperature,
        max_output_tokens=prompt.max_output_tokens,
        thinking=prompt.thinking,
        response_schema=prompt.schema,
    )


def news_parts(case: Case) -> tuple[Part, ...]:
    """Return the parts of the news item: its time as a trusted part, its source and text as untrusted ones."""
    news = case.news
    return (
        Trusted(f"News item, published {news.published_at.isoformat()}, language {case.language}:"),
        Untrusted("news_source", bounded(news.source, 256)),
        Untrusted("news", bounded(news.text, MAX_NEWS_CHARACTERS)),
    )


def keyword_parts(case: Case) -> tuple[Part, ...]:
    """Return the keywords by which the listener selected the news, as one untrusted part; empty without any."""
    words = bounded(", ".join(case.news.keywords_hit), MAX_KEYWORDS_HIT_CHARACTERS)
    return (Untrusted("keywords_hit", words),) if words else ()


def stated_claim(case: Inquiry) -> tuple[Part, ...]:
    """Return the claim as stated by triage, as one untrusted part; empty if triage stated none.

    A model that had read outside text wrote it.
    """
    if case.stated is None:
        return ()
    return (Untrusted("claim", bounded(msgspec.json.encode(case.stated).decode(), 1_000)),)


def facts(**values: Any) -> Trusted:
    """Return values that our code computed, as one line of JSON. They must not contain text from outside."""
    return Trusted("Facts computed by code: " + json.dumps(values, ensure_ascii=False, sort_keys=True))


def findings_facts(findings: Findings) -> dict[str, Any]:
    """Return the amount of evidence, for :func:`facts`: numbers and flags, no text from outside and no stances.

    The critic decides whether a page supports the claim, so no call gets a stance before.
    """
    return {
        "independent_sources": findings.independent_sources,
        "related_sources": findings.related_sources,
        "multi_source": findings.multi_source,
        "official_pages": sum(r.official for r in findings.references),
        "denied": findings.denied,
        "sentiment": msgspec.to_builtins(findings.sentiment),
    }


def reference_facts(references: Iterable[SearchReference]) -> list[dict[str, Any]]:
    """Return the date and publisher of each page, for :func:`facts`, without a stance."""
    return [
        {
            "number": r.reference_number,
            "date": r.published_at.isoformat() if r.published_at else None,
            "domain": r.registrable_domain,
            "credibility": r.source_credibility,
            "official": r.official,
        }
        for r in references
    ]


def reference_parts(references: Iterable[SearchReference], *, passages: bool = False) -> tuple[Part, ...]:
    """Return each reference as an untrusted part, labelled with its number: title, address, and its head or passage."""
    return tuple(Untrusted(f"reference {r.reference_number}", _shown(r, passages=passages)) for r in references)


def _shown(r: SearchReference, *, passages: bool) -> str:
    if passages:
        # The whole passage: quotes are checked against exactly this text.
        return bounded(f"{r.title[:300]}\n{r.url[:300]}\n{r.passage or r.snippet}", MAX_PASSAGE_CHARACTERS)
    return bounded(f"{r.title}\n{r.url}\n{r.snippet}", MAX_REFERENCE_CHARACTERS)


def result_parts(results: Iterable[SearchResult]) -> tuple[Part, ...]:
    return tuple(
        Untrusted(f"search result {i}", bounded(f"{r.title}\n{r.url}\n{r.snippet}", MAX_REFERENCE_CHARACTERS))
        for i, r in enumerate(results, start=1)
    )


def page_parts(case: Inquiry) -> tuple[Part, ...]:
    """Return each opened page as an untrusted part, without the pages that were dropped after their text was read."""
    seen: tuple[PagesScraped | SearchCompleted, ...] = (*case.scrapes, *case.searches)
    dropped = {d.url for s in seen if s.findings for d in s.findings.dropped}
    pages = (page for scraped in seen for page in scraped.pages if page.url not in dropped)
    return tuple(Untrusted("page", bounded(f"{p.title}\n{p.url}\n{p.text}", MAX_PAGE_CHARACTERS)) for p in pages)


def memory_parts(entries: Iterable[MemoryEntry]) -> tuple[Part, ...]:
    """Return each memory as an untrusted part: a model that had read outside text wrote its summary."""
    return tuple(
        Untrusted(
            f"memory {i}, similarity {e.similarity:.2f}",
            bounded(
                f"{e.asset} {e.event_type} {e.withdrawn or format(e.confidence, '.2f')} {e.outcome or ''}: {e.summary}",
                400,
            ),
        )
        for i, e in enumerate(entries, start=1)
    )


def claim_parts(claims: Iterable[EarlierClaim]) -> tuple[Part, ...]:
    """Return each earlier claim as an untrusted part, labelled with its number (from 1) and its time."""
    return tuple(
        Untrusted(f"earlier claim {i}, {c.as_of:%Y-%m-%d %H:%M} UTC", bounded(c.text, MAX_REFERENCE_CHARACTERS))
        for i, c in enumerate(claims, start=1)
    )


def bounded(text: str, limit: int) -> str:
    """Return at most ``limit`` characters, without invisible characters, which can hide instructions from people."""
    if text.replace("\n", " ").isprintable():  # fast path for most texts
        return text[:limit]
    # A text has a few dozen different characters, however long it is.
    hidden = {ord(c): None for c in set(text) if _is_hidden(c)}
    return (text.translate(hidden) if hidden else text)[:limit]


def _is_hidden(character: str) -> bool:
    return character not in "\n\t" and unicodedata.category(character) in ("Cf", "Cc", "Co", "Cs")
