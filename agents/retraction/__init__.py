"""The rules that match a denial or a correction to earlier claims of the journal. Pure.

``statement`` parses one news text: what it claims, what it denies, and which amounts it corrects. ``concerned``
compares two statements. The step that reads the journal is ``agents.verification.critique``.
"""

from __future__ import annotations

from agents.retraction.concerned import Candidate, candidates, chosen, question

__all__ = ["Candidate", "candidates", "chosen", "question"]
