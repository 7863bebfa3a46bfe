"""The scrape step: opens the best pages and judges the findings again with their main texts.

A page that cannot be opened is recorded as a failure and does not end the case.
"""

from __future__ import annotations

from agents.core.case_core import Replies
from agents.core.inquiry import Inquiry
from agents.core.step import On, StepRequest
from agents.planning.rounds import findings_so_far, may_expand, pages_worth_opening, rejudge_findings
from schemas.effects import Failure, PageReply, Scrape
from schemas.events import Event, PagesScraped, SearchCompleted


class ScrapePages:
    """Open at most ``MAX_PAGES`` pages a round, concurrently. The adapter guards against unsafe addresses."""

    name = "scrape"
    takes = (On(SearchCompleted, route="scrape"),)
    emits = (PagesScraped,)

    def ask(self, case: Inquiry) -> StepRequest:
        pages = tuple(Scrape(url=u) for u in pages_worth_opening(case, findings_so_far(case)))
        return pages[0] if len(pages) == 1 else pages

    def tell(self, case: Inquiry, replies: Replies) -> Event:
        pages = tuple(reply.page for reply in replies.all(PageReply))
        before = findings_so_far(case)
        after = rejudge_findings(case, query=before.precise_query, opened=pages) if pages else None
        return PagesScraped(
            round=case.searches[-1].round,
            pages=pages,
            failures=replies.all(Failure),
            route="expand" if may_expand(case, after or before) else "critique",
            findings=after,
        )


STEP = ScrapePages()
