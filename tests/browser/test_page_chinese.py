"""To a Chinese reader the page speaks Chinese: what is left in another language is a name, a figure, an id or a quotation."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import get_args

import pytest

import agents
from agents.core.answers import RESERVED_FLAGS, SYNTHESIS_FLAGS
from agents.evidence.findings import DROP_FLAGS
from newsproof.web import pages
from schemas.signals import WITHDRAWN, Verdict
from tests.browser.conftest import Opened
from tests.browser.fake_api import FakeApi
from tests.browser.recorded import CASE_OF_SOURCE, Json
from tests.browser.views import VIEWS, source_case

NAMES = (
    "code, pre, .brand, .button[lang], .news, .lead, .external, .quote, .snippet, .claim, .searches bdi, .asset, .sources, "
    ".signal-link, .case-link, .open-cases a, .tag bdi, .facts bdi, .case-calls bdi, .case-prompts bdi, .page-research [dir=auto], .answer, "
    ".page-analytics bdi, .page-backtests [dir=auto], .changes strong, .page-live bdi, .beside-title, .page-investigations [dir=auto], "
    ".price-chart bdi, .page-investigations .small, .page-operations tbody, .page-sources th bdi, .page-bots bdi, .letters [dir=auto], .command button, input[placeholder=page]"
)
"""What may say anything: pages, news, models and people by their own words; names of parties, runs, providers and prompts."""
FOREIGN = r"""(quoted) => {
  const found = new Set();
  const look = (text, where) => {
    const own = text.replace(/“[^”]*”|https?:\/\/\S+|\.\/run .*|\b[0-9a-f]{32}\b|[0-9a-f-]{36}|\d+(\.\d+)? (ms|s)\b|\b(UTC|USD|JSON|English|DeepSeek|SQL|Ctrl|Enter|Shift|Holm|Newsproof)\b|\[U\+\w+\]/g, "");
    if (/\p{Script=Han}/u.test(text) ? /[a-z]{3,} [a-z]{2,}/.test(own) : /[A-Za-z]{3,}/.test(own)) found.add(`${where}: ${text.trim()}`);
  };
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) if (!walk.currentNode.parentElement.closest(quoted)) look(walk.currentNode.data, walk.currentNode.parentElement.className);
  for (const name of ["aria-label", "title", "placeholder", "alt"])
    for (const one of document.querySelectorAll(`[${name}]`)) if (!one.closest(quoted)) look(one.getAttribute(name), name);
  look(document.title, "title of the page");
  return [...found];
}"""


@pytest.mark.asyncio(loop_scope="session")
async def test_every_page_and_every_kind_of_case_speaks_chinese(fake: FakeApi, opened: Opened) -> None:
    source_case(fake)
    page = (await opened("/cases", locale="zh-CN")).page
    found: dict[str, list[str]] = {}
    for name, (path, steps) in VIEWS.items():
        if name in ("case", "analytics", "research", "research-running"):  # shown on the way to others
            continue
        await page.goto(fake.address + path)
        for step in steps:
            await step(fake, page)
        found[name] = await page.evaluate(FOREIGN, NAMES)
    kinds = cases_of_every_kind(fake.documents)
    assert {"retracted", *get_args(Verdict)} - kinds.keys() == {"stale"}, "the sample has no stale one"
    for name, document in kinds.items():
        fake.documents[CASE_OF_SOURCE] = document
        await page.goto(f"{fake.address}/case/{CASE_OF_SOURCE}")
        await page.locator(".timeline").wait_for()
        found[name] = await page.evaluate(FOREIGN, NAMES)
    fake.refusals["/api/v1/cases"] = (503, {"error": "the tables are away", "do": "wait a little"})
    await page.goto(f"{fake.address}/cases")
    await page.get_by_role("alert").get_by_text("原文：“the tables are away”").wait_for()
    found["error"] = await page.evaluate(FOREIGN, NAMES)
    assert {name: foreign for name, foreign in found.items() if foreign} == {}


def cases_of_every_kind(documents: dict[str, Json]) -> dict[str, Json]:
    """One recorded case of each verdict, one that was retracted, one that is open, one that was dropped."""
    kinds: dict[str, Json] = {}
    for document in documents.values():
        kinds.setdefault(document["revisions"][-1]["stage" if len(document["revisions"]) > 1 else "verdict"], document)
    whole = kinds["confirmed"]
    begun = {**whole, "signal": None, "revisions": [], "confidence": None, "timeline": whole["timeline"][:4]}
    still = {"en": "Open: no decision yet.", "zh": "处理中：尚无结论。"}
    kinds["open"] = {**begun, "sentence": still, "case": {**whole["case"], "status": "open", "ended_at": None}}
    return kinds


def test_every_flag_in_the_code_is_explained_in_both_languages() -> None:
    flags = {
        *SYNTHESIS_FLAGS,
        *DROP_FLAGS,
        *WITHDRAWN,
        "rumour",
        "unnamed_source",
        "second_hand",
        "price_gap",
        "unverified",
    }
    flags |= RESERVED_FLAGS - {"verified", "official", "confirmed"}  # praise, which no signal carries
    for file in Path(agents.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = isinstance(node, ast.FunctionDef) and "flags" in node.name
            drops = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "drop"
            if names or drops:
                compared = {id(c) for one in ast.walk(node) if isinstance(one, ast.Compare) for c in ast.walk(one)}
                words = [c.value for c in ast.walk(node) if isinstance(c, ast.Constant) and id(c) not in compared]
                flags |= {
                    w.partition(":")[0]
                    for w in words
                    if isinstance(w, str) and re.fullmatch(r"[a-z]+(_[a-z]+)*(:.*)?", w)
                }
    assert {"confidence_low", "weak_denial", "beyond_best", "degraded", "memory_unavailable"} <= flags
    for language in ("en", "zh"):
        texts = (Path(pages.__file__).parent / "static" / "js" / "texts" / f"{language}.js").read_text()
        explained = set(re.findall(r'^  "flag\.(\w+)": ".+",$', texts, re.MULTILINE))
        assert flags - explained == set(), language
        assert explained - flags == {"other"}, language
