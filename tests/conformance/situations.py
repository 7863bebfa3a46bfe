"""What outside providers answer, and what the product must make of it: one row each.

docs/conformance.md is written from this table, and every row is a test of the real adapter over HTTP. To add one, add a row.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.conformance import documented
from tests.conformance.channels.rows import page as channels
from tests.conformance.documented import Document
from tests.conformance.general_rows import GENERAL
from tests.conformance.model_rows import (
    GEMINI_ANSWERS,
    GEMINI_REFUSALS,
    GEMINI_THINKING,
    GEMINI_VECTORS,
    OPENAI_ANSWERS,
    OPENAI_DIALECTS,
    OPENAI_REFUSALS,
    OPENAI_VECTORS,
)
from tests.conformance.rows import EVERYBODY, JSON, WITH_KEY, Must, Row
from tests.conformance.search_rows import ARXIV_ROWS, BOCHA_ROWS, GDELT_ROWS, RAGFLOW_ROWS, SEARXNG_ROWS, TAVILY_ROWS

GROUPS: dict[str, Sequence[Row]] = {
    "Every provider": GENERAL,
    "Gemini: responses": GEMINI_ANSWERS,
    "Gemini: thinking and limits": GEMINI_THINKING,
    "Gemini: refusals": GEMINI_REFUSALS,
    "Gemini: embeddings": GEMINI_VECTORS,
    "OpenAI-compatible: responses": OPENAI_ANSWERS,
    "OpenAI-compatible: parameters that a server refuses": OPENAI_DIALECTS,
    "OpenAI-compatible: refusals": OPENAI_REFUSALS,
    "OpenAI-compatible: embeddings": OPENAI_VECTORS,
    "Tavily": TAVILY_ROWS,
    "Bocha": BOCHA_ROWS,
    "RAGFlow": RAGFLOW_ROWS,
    "Arxiv": ARXIV_ROWS,
    "GDELT": GDELT_ROWS,
    "SearXNG": SEARXNG_ROWS,
}
ROWS: tuple[Row, ...] = tuple(row for rows in GROUPS.values() for row in rows)
_WHOM = {EVERYBODY: "all", JSON: "all with JSON responses", WITH_KEY: "all with a key"}
_COST = {
    "billed": "what the provider charges, to the last digit",
    "unknown": "unknown: the whole reservation is kept",
    "nothing": "nothing",
}
_BREAKER = {"closed": "stays closed", "counts": "counts it", "opens": "opens at once"}
_HEAD = """# Responses of providers, and how Newsproof handles them

Look up here how Newsproof handles each response of a provider or a bot's channel. `docs/generate.py` writes this page from
the table in `tests/conformance`; do not edit it. Each row is a test: it runs the real adapter over HTTP against a server that
was written from the provider's documentation. The server checks every request against the documented schema (an unknown
field, a missing header, or a wrong type or value is refused in the provider's own words). It counts tokens, cuts a response
at its limit (thinking included), and records what it charges. No key is needed, and no real provider is called. So what a real
provider does beyond its documentation only shows in real calls. Texts of refusals are the provider's own if its documentation
or a public report quotes them. Otherwise the format is the provider's, and the words are ours.

- **Result**: `reply` means that the response is used. Otherwise it is the kind of failure that the case's log records.
- **Retry**: whether the runtime tries again, within the step's deadline. A waiting time is the one that the provider asked for.
- **Cost**: "unknown" keeps the whole reservation in the budget. If the provider is free, the cost is nothing.
- **Breaker**: the breaker of this provider and model. Five failures in a row open it; a rate limit, a refused key or an unpaid
  plan opens it at once.

## Documentation that requests are checked against

| request | documentation | looked up |
|---|---|---|
"""


def page() -> str:
    """Return docs/conformance.md."""
    named = {name: value for name, value in vars(documented).items() if isinstance(value, Document)}
    sources = "".join(
        f"| {name.replace('_', ' ').lower()} | {one.source} | {one.looked_up} |\n" for name, one in named.items()
    )
    return _HEAD + sources + "".join(_section(title, rows) for title, rows in GROUPS.items()) + channels()


def _section(title: str, rows: Sequence[Row]) -> str:
    head = "| situation | provider | response | result | retry | cost | breaker |\n|---|---|---|---|---|---|---|\n"
    return f"\n## {title}\n\n{head}" + "".join(_line(row) for row in rows)


def _line(row: Row) -> str:
    whom = _WHOM.get(row.providers, ", ".join(row.providers))
    must = row.must
    does = "reply" if must.kind == "reply" else f"`{must.kind}`"
    says = f", naming {', '.join(f'“{word}”' for word in must.says)}" if must.says else ""
    breaker = "none" if all("vectors" in p for p in row.providers) else _BREAKER[must.breaker]
    cells = (row.name, whom, row.answers, f"{does}{says}", _again(must), _COST[must.cost], breaker)
    return "| " + " | ".join(cell.replace("|", "\\|").replace("<think>", "`<think>`") for cell in cells) + " |\n"


def _again(must: Must) -> str:
    if must.kind == "reply":
        return "–"
    if must.kind == "cut":
        return "once, with a larger limit"
    if not must.again:
        return "no"
    if must.until:
        return f"yes, after {must.until}"
    return "yes" if must.wait_s is None else f"yes, after {must.wait_s:g} s"
