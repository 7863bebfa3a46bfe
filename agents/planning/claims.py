"""Counts the claims of a news text, to decide whether one search can cover all of them."""

from __future__ import annotations

import re

from agents.core.asking import bounded
from agents.core.inquiry import Inquiry
from agents.evidence.compiled import entities_in
from agents.text.matching import units
from schemas.config import Tables

COMPLEX_FROM = 3
"""Claims that make a case complex. Two are mostly a fact and its circumstance, which one query finds together."""
MAX_CLAIMS = 5
_READ = 3_000
"""Characters of the news in which claims are counted: a story makes its claims within them."""
_LEAST_UNITS = 6
"""Minimum words, or Chinese characters, of a sentence that can be true or false on its own."""
_END = re.compile(r"[。!?!?;;\n]+|(?<=[\w)%\"'”])\.\s+(?=[A-Z\"'“$])")


def claims_in(text: str, tables: Tables) -> tuple[str, ...]:
    """Return the checkable sentences: those with a figure, or with a name from the tables.

    At most ``MAX_CLAIMS``, in the text's order, each once.
    """
    said = (" ".join(part.split()).rstrip(".") for part in _END.split(bounded(text, _READ)))
    found = (s for s in said if len(units(s)) >= _LEAST_UNITS and (_has_figure(s) or entities_in(s, tables)))
    return tuple(dict.fromkeys(found))[:MAX_CLAIMS]


def claim_count(case: Inquiry) -> int:
    """Return the number of claims in the case's news, at least 1."""
    return max(1, len(claims_in(case.text, case.config.tables)))


def is_complex(case: Inquiry) -> bool:
    """Whether a plan may search claim by claim."""
    return claim_count(case) >= COMPLEX_FROM


def _has_figure(sentence: str) -> bool:
    return any(c.isdigit() for c in sentence)
