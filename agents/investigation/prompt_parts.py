"""Parts of an investigation's model calls: the subject, the previous brief, and the claims to judge."""

from __future__ import annotations

from agents.core.model_calls import bounded
from agents.investigation.investigation import Investigation
from schemas.effects import Part, Trusted, Untrusted
from schemas.evidence import PreviousBrief
from schemas.research_events import FoundClaim

MAX_EARLIER = 12
"""Maximum claims of an earlier brief that a model is shown."""


def subject_parts(case: Investigation) -> tuple[Part, ...]:
    """Return the subject and the question as untrusted parts, and the time as a trusted one."""
    return (
        Trusted(f"Subject, looked into as of {case.as_of.isoformat()}, language {case.language}:"),
        Untrusted("subject", bounded(case.asked.subject, 200)),
        Untrusted("question", bounded(case.asked.question, 500)),
    )


def previous_parts(previous: PreviousBrief | None) -> tuple[Part, ...]:
    """Return the claims of an earlier brief as untrusted parts: a model that had read pages wrote them."""
    if previous is None:
        return ()
    return (
        Trusted(f"What the brief as of {previous.as_of.isoformat()} said:"),
        *(
            Untrusted(f"earlier claim {n}, {c.verdict}", bounded(c.claim, 300))
            for n, c in enumerate(previous.claims[:MAX_EARLIER], start=1)
        ),
    )


def claim_parts(case: Investigation, stated: FoundClaim) -> tuple[Part, ...]:
    """Return one claim as the critic reads it, in place of the news."""
    return (
        Trusted(f"Claim about the subject, looked into as of {case.as_of.isoformat()}, language {case.language}:"),
        Untrusted("subject", bounded(case.asked.subject, 200)),
        Untrusted("news", bounded(stated.claim, 400)),
    )
