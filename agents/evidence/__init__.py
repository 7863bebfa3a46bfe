"""The evaluation of search results: usable pages, their stance on the claim, and their publishers.

Pure and deterministic. Editable words and sources are in the tables of the pinned snapshot (``agents/tables``); the
grammar that reads the tables is in ``agents.text``. Start reading at :func:`agents.evidence.findings.assess`.
"""

from __future__ import annotations

from agents.evidence.claim import Claim
from agents.evidence.compiled import entities_in
from agents.evidence.findings import assess
from agents.evidence.news_claim import claim_of
from agents.text.injection import steers_model, strip_invisible

__all__ = [
    "Claim",
    "assess",
    "claim_of",
    "entities_in",
    "steers_model",
    "strip_invisible",
]
