"""The look-again step: begins a second look with the first case's judgement, and what ends one that changes nothing.

A search made seconds after the event finds nothing, because nothing is indexed. A look makes it once more: no triage and no
plan are paid for again, and no critic unless a page is new. Its signal is the next revision of the first case's.
"""

from __future__ import annotations

from agents.core.case import Case, Replies
from agents.core.step import On, StepRequest
from agents.evidence.verdict import Judgement
from agents.planning.rounds import references_so_far, skipped_flags
from agents.text.injection import steers_model
from agents.verification.gate import rollout_bucket
from schemas.events import CaseDropped, CaseTriaged, Event, SecondLookOpened


class LookAgain:
    """Needs no effect: the draft and the claim are the first case's."""

    name = "look_again"
    takes = (On(SecondLookOpened),)
    emits = (CaseTriaged,)

    def ask(self, case: Case) -> StepRequest:
        return self.tell(case, case.replies)

    def tell(self, case: Case, replies: Replies) -> Event:
        look: SecondLookOpened = case.head
        return CaseTriaged(
            draft=look.draft,
            route="deep",
            gate_reason=f"second look {look.number}: what case {look.of_case} found was {look.verdict}",
            rollout_bucket=rollout_bucket(look.of_case),
            injection_suspected=case.memo.once(steers_model, case.news.text),
            claim=look.claim,
        )


def nothing_new(case: Case) -> CaseDropped | None:
    """Return the end of a second look that found no page beside those of the first case; None if it goes on."""
    if case.look is None or any(r.url not in case.look.known for r in references_so_far(case)):
        return None
    failed = [flag.partition(":")[2] for flag in skipped_flags(s.outcomes for s in case.searches)]
    return unchanged(f"search failed ({failed[0]})" if failed else "no page that the first case did not have")


def same_verdict(case: Case, judgement: Judgement) -> CaseDropped | None:
    """Return the end of a second look whose pages leave the verdict as it is; None if it goes on."""
    if case.look is None or judgement.verdict != case.look.verdict:
        return None
    return unchanged(f"the new pages leave it {judgement.verdict}")


def unchanged(why: str) -> CaseDropped:
    """Return the end of a second look that leaves the signal as it is."""
    return CaseDropped(reason="unchanged", detail=why)


STEP = LookAgain()
