"""How many things a news text claims: what decides whether one search can answer for all of it."""

from __future__ import annotations

import re

from agents.core.asking import bounded
from agents.core.case import Case
from agents.evidence.compiled import entities_in
from agents.text.matching import units
from schemas.config import Tables

COMPLEX_FROM = 3
"""So many claims make a case complex. Two are mostly one fact and its circumstance, which one query finds together."""
MAX_CLAIMS = 5
_READ = 3_000
"""Characters of the news that claims are counted in: a story has said by then what it claims."""
_LEAST_UNITS = 6
"""Words, or Chinese characters, of the shortest sentence that can be true or false on its own."""
_END = re.compile(r"[。!?!?;;\n]+|(?<=[\w)%\"'”])\.\s+(?=[A-Z\"'“$])")


def claims_in(text: str, tables: Tables) -> tuple[str, ...]:
    """Return the sentences that state something checkable: they hold a figure, or name somebody of the tables.

    At most ``MAX_CLAIMS``, in the text's order, each once.
    """
    said = (" ".join(part.split()).rstrip(".") for part in _END.split(bounded(text, _READ)))
    found = (s for s in said if len(units(s)) >= _LEAST_UNITS and (_has_figure(s) or entities_in(s, tables)))
    return tuple(dict.fromkeys(found))[:MAX_CLAIMS]


def claim_count(case: Case) -> int:
    """Return the number of claims of the case's news, at least 1."""
    return max(1, len(claims_in(case.news.text, case.config.tables)))


def is_complex(case: Case) -> bool:
    """Whether a plan may search claim by claim."""
    return claim_count(case) >= COMPLEX_FROM


def _has_figure(sentence: str) -> bool:
    return any(c.isdigit() for c in sentence)
