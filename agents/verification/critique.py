"""The critique step: what each page says of the claim, in words that it holds; and the earlier signals to retract."""

from __future__ import annotations

import msgspec

from agents.core.answers import CritiqueAnswer, answer, one_line
from agents.core.case import Case, Replies
from agents.core.step import Asked
from agents.judging import Judged, judged_case
from agents.planning.reading import stances_of, unquoted_in
from agents.planning.rounds import ROUNDS_ENDED, references_so_far
from agents.retraction import chosen, question
from agents.verification.critic import (
    asked_again,
    candidates_of,
    claim_verdict,
    critique_call,
    shown,
)
from agents.verification.look_again import nothing_new, same_verdict
from schemas.effects import ModelReply
from schemas.events import CaseDropped, Event, EvidenceCritiqued

MAX_CLAIMS = 5
MAX_CONTRADICTIONS = 5


class CritiqueEvidence:
    """Ask the heavy model what each page says, with a quote; where a third of the quotes fail, ask it once more.

    Without a reference there is nothing to judge, and no call. News that denies or corrects is compared with the claims of
    earlier cases (a free journal read), which the critic is shown as well. A second look that changes nothing ends here.
    """

    name = "critique"
    takes = ROUNDS_ENDED
    emits = (EvidenceCritiqued, CaseDropped)

    def ask(self, case: Case) -> Asked:
        if (end := nothing_new(case)) is not None:
            return end
        if not shown(case):
            return EvidenceCritiqued(claims=(), verdict="not_enough_evidence")
        wanted = question(case)
        if wanted is not None and case.replies.of(wanted) is None:
            return (wanted,)
        earlier = candidates_of(case, case.replies)
        first = critique_call(case, earlier)
        asked = (wanted, first, asked_again(case, earlier, first, case.replies))
        return tuple(effect for effect in asked if effect is not None)

    def tell(self, case: Case, replies: Replies) -> Event:
        earlier = candidates_of(case, replies)
        first = critique_call(case, earlier)
        again = asked_again(case, earlier, first, replies)
        better = replies.of(again) if again is not None else None
        # A second reading that was not answered leaves the first, whose failed quotes count against it.
        reply = better if isinstance(better, ModelReply) else replies.of(first)
        said = answer(reply, CritiqueAnswer)
        stances = stances_of(said, shown(case))
        numbers = {r.reference_number for r in references_so_far(case)}
        claims = tuple(claim_verdict(c, numbers) for c in said.claims[:MAX_CLAIMS])
        critique = EvidenceCritiqued(
            claims=claims,
            stances=stances,
            verdict=said.verdict if said.verdict in {c.verdict for c in claims} else "not_enough_evidence",
            contradictions=tuple(one_line(c, 300) for c in said.contradictions[:MAX_CONTRADICTIONS]),
            timeliness=said.timeliness,
        )
        judged = judged_case(case, critique=critique)
        if (end := same_verdict(case, judged.judgement)) is not None:
            return end
        concerned = chosen(case, earlier, said.concerned) if is_believed(judged) else ()
        return msgspec.structs.replace(
            critique,
            unquoted=unquoted_in(judged.heard),
            concerned=concerned,
            route="retract" if concerned else "synthesize",
        )


def is_believed(judged: Judged) -> bool:
    """Whether a denial takes an earlier signal back: it is confirmed, or likely by an established page that is quoted."""
    if judged.judgement.verdict == "likely":
        return any(
            h.quoted and h.stance == "supports" and h.reference.source_credibility in {"high", "medium"}
            for h in judged.heard
        )
    return judged.judgement.verdict == "confirmed"


STEP = CritiqueEvidence()
