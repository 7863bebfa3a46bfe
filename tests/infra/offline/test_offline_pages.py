"""Opening pages offline."""

from __future__ import annotations

import pytest

from infra.offline.search import OfflinePages, load_corpus
from schemas.effects import PageReply, Scrape
from schemas.errors import PermanentError


async def test_a_page_of_the_corpus_opens_with_its_text() -> None:
    document = load_corpus()[0]
    answer = await OfflinePages(load_corpus()).perform(Scrape(url=document.url))
    assert isinstance(answer.reply, PageReply)
    assert answer.reply.page.text == document.content
    assert answer.cost_usd == 0


async def test_any_other_page_stays_shut_and_the_error_says_why() -> None:
    with pytest.raises(PermanentError, match="offline opens only those") as caught:
        await OfflinePages(load_corpus()).perform(Scrape(url="https://elsewhere.example/"))
    assert caught.value.kind == "blocked"
