"""The evaluation of search results: which pages may be used, what they say of the claim, who published them.

Pure and deterministic. Editable words and sources are in the tables of the pinned snapshot (``agents/tables``); the
grammar that reads the tables is here. Start reading at :func:`agents.evidence.findings.assess`.
"""

from __future__ import annotations

from agents.evidence.claim import Claim
from agents.evidence.compiled import entities_in
from agents.evidence.findings import assess
from agents.evidence.news_claim import claim_of
from agents.planning.query_builder import build_query, fallback_query
from agents.text.injection import steers_model, strip_invisible

__all__ = [
    "Claim",
    "assess",
    "build_query",
    "claim_of",
    "entities_in",
    "fallback_query",
    "steers_model",
    "strip_invisible",
]
