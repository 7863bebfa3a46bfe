"""Retraction: the rules that match a denial or a correction with earlier claims, and the step ``retract``. Pure.

``statement`` parses one news text: what it claims, what it denies, and which amounts it corrects. ``concerned``
compares two statements. The step ``critique`` (:mod:`agents.verification.critique`) asks the journal for earlier claims and
chooses with these rules; ``retract``, the step of this folder, makes one event of each signal that was chosen.
"""

from __future__ import annotations

from agents.retraction.earlier_claims import Candidate, choose_concerned, earlier_claims_query, find_candidates

__all__ = ["Candidate", "choose_concerned", "earlier_claims_query", "find_candidates"]
