"""Retraction: the rules that match a denial or a correction with earlier claims, and the step ``retract``. Pure.

``statement`` parses one news text: its claim, its denials, and the amounts that it corrects. ``earlier_claims`` compares
two statements. The step ``critique`` (:mod:`agents.verification.critique`) finds earlier claims in the journal and chooses
with these rules. ``retract``, the step of this folder, emits one event for each chosen signal.
"""

from __future__ import annotations

from agents.retraction.earlier_claims import Candidate, choose_concerned, earlier_claims_query, find_candidates

__all__ = ["Candidate", "choose_concerned", "earlier_claims_query", "find_candidates"]
