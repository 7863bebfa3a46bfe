"""To a Chinese reader the page speaks Chinese: what is left in another language is a name, a figure, an id or a quotation."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.conftest import Opened
from tests.browser.fake_api import FakeApi
from tests.browser.views import VIEWS, source_case

pytestmark = pytest.mark.asyncio(loop_scope="session")

FOREIGN = """() => {
  const found = new Set();
  const look = (text, where) => {
    if (/[A-Za-z]{2,}/.test(text) && !/\\p{Script=Han}/u.test(text)) found.add(where + ": " + text.trim());
  };
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const parent = walk.currentNode.parentElement;
    if (!parent.closest(QUOTED)) look(walk.currentNode.data, (parent.closest("[class]")?.className ?? "") + " " + parent.tagName);
  }
  for (const one of document.querySelectorAll("[aria-label], [title], [placeholder], [alt]"))
    for (const name of ["aria-label", "title", "placeholder", "alt"])
      if (one.hasAttribute(name) && !one.closest(QUOTED)) look(one.getAttribute(name), name);
  look(document.title, "title");
  return [...found];
}"""


async def test_sweep(fake: FakeApi, opened: Opened) -> None:
    source_case(fake)
    out: dict[str, Any] = {}
    for name, (path, steps) in VIEWS.items():
        watched = await opened(path, locale="zh-CN")
        for step in steps:
            await step(fake, watched.page)
        out[name] = await watched.page.evaluate(FOREIGN.replace("QUOTED", "'script'"))
    seen = set()
    for one in [*fake.documents.values()]:
        page = (await opened(f"/case/{one['case']['case_id']}", locale="zh-CN")).page
        await page.locator(".timeline").wait_for()
        seen |= set(await page.evaluate(FOREIGN.replace("QUOTED", "'script'")))
    out["cases*"] = sorted(seen)
    import json
    open("/tmp/sweep.json", "w").write(json.dumps(out, ensure_ascii=False, indent=1))
