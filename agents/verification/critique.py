"""The critique step: the stance of each page with a quote, and the earlier signals to retract."""

from __future__ import annotations

from typing import cast

import msgspec

from agents.core.answers import one_line
from agents.core.case import Case, Replies
from agents.core.step import StepFailure, StepRequest
from agents.judging import CaseJudgement, judge_case
from agents.planning.critic_reading import unquoted_in
from agents.planning.rounds import ROUNDS_ENDED, references_so_far
from agents.retraction import choose_concerned, earlier_claims_query
from agents.verification.critic import (
    candidates_of,
    claim_verdict,
    critique_call,
    critique_in,
    second_critique_call,
    shown_references,
)
from agents.verification.second_look import nothing_new, same_verdict
from agents.verification.story_reports import earlier_reports_query, settle_rivals
from schemas.effects import Failure, ModelReply
from schemas.errors import FailureKind
from schemas.events import CaseDropped, Event, EvidenceCritiqued

MAX_CLAIMS = 5
MAX_CONTRADICTIONS = 5


class CritiqueEvidence:
    """Calls the heavy model for the stance of each page, with a quote. If over a third of the quotes fail, calls it again.

    Without a reference there is no call; if every search failed, the case may go to the single pass. News that denies or
    corrects is compared with the claims of earlier cases (a free journal read), which the critic is also shown. A second
    look that changes nothing ends here.
    """

    name = "critique"
    takes = ROUNDS_ENDED
    emits = (EvidenceCritiqued, CaseDropped)

    def ask(self, case: Case) -> StepRequest:
        if (end := nothing_new(case)) is not None:
            return end
        wanted, reports = earlier_claims_query(case), earlier_reports_query(case)
        if not shown_references(case):
            if (away := search_away(case)) is not None:
                raise StepFailure(away)
            return (reports,) if reports is not None else _UNREAD
        if wanted is not None and case.replies.of(wanted) is None:
            return (wanted,)
        earlier = candidates_of(case, case.replies)
        first = critique_call(case, earlier)
        asked = (wanted, reports, first, second_critique_call(case, earlier, first, case.replies))
        return tuple(effect for effect in asked if effect is not None)

    def tell(self, case: Case, replies: Replies) -> Event:
        if not shown_references(case):
            return settle_rivals(case, _UNREAD, judge_case(case), replies)
        earlier = candidates_of(case, replies)
        first = critique_call(case, earlier)
        # If the second call failed, the first reply counts, with its failed quotes.
        better = replies.of(again) if (again := second_critique_call(case, earlier, first, replies)) else None
        reply = better if isinstance(better, ModelReply) else replies.of(first)
        critic, stances = critique_in(case, reply)
        numbers = {r.reference_number for r in references_so_far(case)}
        claims = tuple(claim_verdict(c, numbers) for c in critic.claims[:MAX_CLAIMS])
        critique = EvidenceCritiqued(
            claims=claims,
            stances=stances,
            verdict=critic.verdict if critic.verdict in {c.verdict for c in claims} else "not_enough_evidence",
            contradictions=tuple(one_line(c, 300) for c in critic.contradictions[:MAX_CONTRADICTIONS]),
            timeliness=critic.timeliness,
        )
        judged = judge_case(case, critique=critique)
        if (end := same_verdict(case, judged.judgement)) is not None:
            return end
        chosen = critic.concerned if is_believed(judged) else ()
        concerned = choose_concerned(case, earlier, chosen, _supporting(judged))
        critique = msgspec.structs.replace(critique, unquoted=unquoted_in(judged.pages), concerned=concerned)
        return settle_rivals(case, critique, judged, replies)


_UNREAD = EvidenceCritiqued(claims=(), verdict="not_enough_evidence")


def _supporting(judged: CaseJudgement) -> list[str]:
    pages = [page.reference for page in judged.pages if page.stance == "supports"]
    return [f"{p.title}\n{p.passage or p.snippet}" for p in pages]


def is_believed(judged: CaseJudgement) -> bool:
    """Return whether a denial retracts an earlier signal: it is confirmed, or likely with a quoted established page."""
    if judged.judgement.verdict == "likely":
        return any(
            page.quoted and page.stance == "supports" and page.reference.source_credibility in {"high", "medium"}
            for page in judged.pages
        )
    return judged.judgement.verdict == "confirmed"


def search_away(case: Case) -> Failure | None:
    """Return the failure of all searches if the settings send such a case to the single pass; else None.

    A search that the budget denied or that is switched off does not count: the single pass could not search either.
    """
    config, why = case.config, judge_case(case).why or ""
    failed, _, kind = why.partition(":")
    without = bool(why) and config.tool_search_enabled and not config.search_providers
    if not config.search_away_single_pass or not (failed == "search_failed" or without):
        return None
    message = "no search provider answered" if kind else "no search provider is configured"
    return Failure(kind=cast(FailureKind, kind) if kind else "not_configured", message=message, retryable=False)


STEP = CritiqueEvidence()
