"""Parses amounts (zh and en) as plain numbers, to tell “$200M stolen” from “$1.4B stolen” across languages."""

from __future__ import annotations

import re

_SCALE = {
    "trillion": 1e12, "billion": 1e9, "bn": 1e9, "b": 1e9, "million": 1e6, "mn": 1e6, "m": 1e6, "thousand": 1e3, "k": 1e3,
    "万亿": 1e12, "亿": 1e8, "万": 1e4, "千": 1e3,
}  # fmt: skip
_AMOUNT = re.compile(
    r"(?P<sign>[$€£¥])?\s?(?<![\d.,a-z])(?P<number>\d[\d,]*(?:\.\d+)?)\s?"
    r"(?P<scale>trillion|billion|million|thousand|bn|mn|[bmk](?![a-z])|万亿|亿|万|千)?(?P<unit>%)?"
)
_NOT = re.compile(
    r"\b(?:not|rather than|instead of|previously|earlier|initially|up from|down from|from)\b"
    r"|而非|而不是|并非|不是|此前|之前|原先|最初|误[报写作称]"
)
_REACH = 24
"""Maximum characters between a word that rejects an amount and the amount."""
_PLAIN_FROM = 1_000
_YEARS = range(1990, 2101)
SAME = 0.02
"""Relative difference up to which two amounts are equal, since reports round."""


class Amounts:
    """The amounts that a text states as ``given``, and those that it rejects as ``wrong``, such as “not 500,000”."""

    __slots__ = ("given", "wrong")

    def __init__(self, text: str) -> None:
        """``text`` must be folded and in lower case."""
        given, wrong = set[float](), set[float]()
        for match in _AMOUNT.finditer(text):
            value = float(match["number"].replace(",", "")) * _SCALE.get(match["scale"] or "", 1.0)
            plain = match["scale"] is None and match["sign"] is None
            if match["unit"] or (plain and (value < _PLAIN_FROM or int(value) in _YEARS)):
                continue
            before = text[max(0, match.start() - _REACH) : match.start()]
            set_aside = list(_NOT.finditer(before))
            # “not 500,000 but 401,000”: the rejecting word applies only to the next amount.
            aside = bool(set_aside) and not any(c.isdigit() for c in before[set_aside[-1].end() :])
            (wrong if aside else given).add(value)
        self.given, self.wrong = frozenset(given), frozenset(wrong)

    @property
    def all(self) -> frozenset[float]:
        """Every amount, stated or rejected."""
        return self.given | self.wrong


def share(one: frozenset[float], other: frozenset[float], *, within: float = SAME) -> bool:
    """Whether any amount of one set equals any of the other, up to the relative difference ``within``."""
    return any(abs(a - b) <= within * max(a, b) for a in one for b in other)
