"""Whom a denial or a correction concerns: pure rules over the denying news and the earlier claims of the journal.

``statement`` reads one news text: what it claims, what it denies, which amounts it puts right. ``concerned`` compares two
of them. Nothing here asks anybody anything; the step that does is ``agents.verification.critique``.
"""

from __future__ import annotations

from agents.retraction.concerned import Candidate, candidates, chosen, question

__all__ = ["Candidate", "candidates", "chosen", "question"]
