"""The part of a page that a critic is shown: at most 1,200 characters, around the claim's words."""

from __future__ import annotations

import re
from collections.abc import Collection
from itertools import accumulate

from agents.text.matching import fold_han, units

PASSAGE = 1200
"""Characters of a passage."""
_SENTENCE = re.compile(r".+?(?:[。!?!?]|[.;](?=\s)|\n|$)\s*", re.DOTALL)


def passage_of(text: str, claim_units: Collection[str]) -> str:
    """Return the run of whole sentences that holds most of the claim's words; a shorter text whole.

    ``claim_units``: the units of the claim's folded text (``agents.text.matching.units``).
    """
    plain = text.strip()
    if len(plain) <= PASSAGE:
        return plain
    sentences = [m[0][:PASSAGE] for m in _SENTENCE.finditer(plain)]
    weights = [
        len({u for u in units(fold_han(s)) if len(u) > 2 or not u.isascii()} & set(claim_units)) for s in sentences
    ]
    sums = [0, *accumulate(weights)]
    best, start, size = (-1, 0, 0), 0, 0
    for end, sentence in enumerate(sentences, start=1):
        size += len(sentence)
        while size > PASSAGE:
            size -= len(sentences[start])
            start += 1
        best = max(best, (sums[end] - sums[start], -start, end))
    return "".join(sentences[-best[1] : best[2]]).strip()
