"""The part of a page that a critic is shown: at most 1,200 characters, around the claim's words."""

from __future__ import annotations

import re
from collections.abc import Collection
from itertools import accumulate

from agents.text.matching import fold_han, units

PASSAGE = 1200
"""Characters of a passage."""
_SENTENCE = re.compile(rf".{{1,{PASSAGE - 1}}}?(?:[。!?!?]|[.;](?=\s)|\n|$)\s*|.{{1,{PASSAGE}}}", re.DOTALL)
"""A sentence; of a text that has no ends, a piece."""


def passage_of(text: str, claim_units: Collection[str]) -> str:
    """Return the run of whole sentences around the one with most of the claim's words; a shorter text whole.

    ``claim_units``: the units of the claim's folded text (``agents.text.matching.units``).
    """
    plain = text.strip()
    if len(plain) <= PASSAGE:
        return plain
    sentences = [m[0][:PASSAGE] for m in _SENTENCE.finditer(plain)]
    wanted = {u for u in claim_units if len(u) > 2 or not u.isascii()}
    weights = [len(wanted.intersection(units(fold_han(s)))) for s in sentences]
    sums, ends, anchor = [0, *accumulate(weights)], [0, *accumulate(map(len, sentences))], weights.index(max(weights))
    best, start = (-1, 0, 0, 0), 0
    for end in range(1, len(sentences) + 1):
        while ends[end] - ends[start] > PASSAGE:
            start += 1
        is_full = end == len(sentences) or ends[end + 1] - ends[start] > PASSAGE
        if start <= anchor < end and is_full:
            # Of equal runs, the one with as much before the sentence as after it.
            off_centre = abs(ends[start] + ends[end] - ends[anchor] - ends[anchor + 1])
            best = max(best, (sums[end] - sums[start], -off_centre, start, end))
    return "".join(sentences[best[2] : best[3]]).strip()
