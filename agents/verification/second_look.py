"""The look-again step, which begins a second look with the first case's judgement, and the ends of one that changes nothing.

A search made seconds after the event finds nothing, because nothing is indexed. A second look repeats it later: without
another triage and plan, and without a critic unless there is a new page. Its signal is the next revision of the first
case's signal.
"""

from __future__ import annotations

from agents.core.case import Case
from agents.core.step import AskOnly, On
from agents.evidence.verdict import Judgement
from agents.planning.rounds import references_so_far, skipped_flags
from agents.text.injection import steers_model
from agents.verification.gate import rollout_bucket
from schemas.events import CaseDropped, CaseTriaged, Event, SecondLookOpened


class LookAgain(AskOnly):
    """Copies draft and claim from the first case. Needs no effect."""

    name = "look_again"
    takes = (On(SecondLookOpened),)
    emits = (CaseTriaged,)

    def ask(self, case: Case) -> Event:
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
    """Return the end of a second look that found no new page; None if it continues."""
    if case.look is None or any(r.url not in case.look.known for r in references_so_far(case)):
        return None
    failed = [flag.partition(":")[2] for flag in skipped_flags(s.outcomes for s in case.searches)]
    return unchanged(f"search failed ({failed[0]})" if failed else "no page that the first case did not have")


def same_verdict(case: Case, judgement: Judgement) -> CaseDropped | None:
    """Return the end of a second look whose pages do not change the verdict; None if it continues."""
    if case.look is None or judgement.verdict != case.look.verdict:
        return None
    return unchanged(f"the new pages leave it {judgement.verdict}")


def unchanged(why: str) -> CaseDropped:
    """Return the end of a second look that leaves the signal unchanged."""
    return CaseDropped(reason="unchanged", detail=why)


STEP = LookAgain()
