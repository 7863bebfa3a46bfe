"""The expand step: a model finds new keywords in the evidence that are worth one more search."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agents.core.answers import ExpandAnswer, answer, clean_keywords, one_line
from agents.core.case_core import Replies
from agents.core.inquiry import Inquiry
from agents.core.model_calls import ask_model, facts, findings_facts, news_parts, page_parts, reference_parts
from agents.core.step import On, StepFailure, StepRequest, only_reply
from agents.planning.rounds import findings_so_far
from schemas.effects import Part, Untrusted
from schemas.events import Event, KeywordsExpanded, PagesScraped, SearchCompleted

MAX_KEYWORDS = 3


class ExpandKeywords:
    """An optional step. If the model fails, the case continues to the critique with its evidence.

    ``prompt``: name of the prompt; ``parts`` returns the parts that describe the subject.
    """

    name = "expand"
    takes = (On(SearchCompleted, route="expand"), On(PagesScraped, route="expand"))
    emits = (KeywordsExpanded,)

    def __init__(self, prompt: str, parts: Callable[[Any], tuple[Part, ...]]) -> None:
        self._prompt, self._parts = prompt, parts

    def ask(self, case: Inquiry) -> StepRequest:
        findings = findings_so_far(case)
        # A model that had read outside text wrote these keywords, so they are untrusted.
        asked = [Untrusted("searched", p.search_keywords) for p in case.plans if p.search_keywords]
        known = facts(**findings_facts(findings), searches=len(asked))
        return ask_model(
            case,
            self._prompt,
            (*self._parts(case), known, *asked, *reference_parts(findings.references), *page_parts(case)),
        )

    def tell(self, case: Inquiry, replies: Replies) -> Event:
        number = case.searches[-1].round
        try:
            response = answer(only_reply(replies), ExpandAnswer)
        except StepFailure as stop:
            why = f"no keywords: {stop.failure.kind}"
            return KeywordsExpanded(round=number, keywords=(), reason=why, route="critique")
        keywords = new_keywords(case, response.keywords)
        reason = one_line(response.reason, 300)
        return KeywordsExpanded(
            round=number, keywords=keywords, reason=reason, route="plan" if keywords else "critique"
        )


def new_keywords(case: Inquiry, wanted: list[str]) -> tuple[str, ...]:
    """Return the cleaned keywords that no search of this case has used, at most ``MAX_KEYWORDS``."""
    asked = " ".join(p.search_keywords for p in case.plans).casefold()
    cleaned = (clean_keywords(k[:60]) for k in wanted)
    return tuple(dict.fromkeys(k for k in cleaned if k and k.casefold() not in asked))[:MAX_KEYWORDS]


STEP = ExpandKeywords("expand", news_parts)
