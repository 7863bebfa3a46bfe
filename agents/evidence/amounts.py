"""Parses amounts (zh and en) as plain numbers, to tell “$200M stolen” from “$1.4B stolen” across languages."""

from __future__ import annotations

import re
from math import isfinite, prod

from agents.text.matching import fold_han

_SCALE = {
    "trillion": 1e12, "t": 1e12, "billion": 1e9, "bn": 1e9, "b": 1e9, "million": 1e6, "mn": 1e6, "m": 1e6, "thousand": 1e3, "k": 1e3,
}  # fmt: skip
_HAN = {"十": 1e1, "百": 1e2, "千": 1e3, "万": 1e4, "亿": 1e8}
_EN_SCALE = r"trillion|billion|million|thousand|bn|mn|[tbmk](?![a-z])"
_HAN_SCALE = "[百千]?万亿|[十百千]?[亿万]|千"
_NUMBER = r"\d[\d,]*(?:\.\d+)?"
_AMOUNT = re.compile(
    rf"(?P<sign>[$€£¥])?\s?(?<![\d.a-z])(?<!\d,)(?P<number>{_NUMBER})\s?(?P<scale>{_EN_SCALE}|{_HAN_SCALE})?"
)
_MORE = re.compile(
    rf"\s?零?(?P<number>{_NUMBER})\s?(?P<scale>{_HAN_SCALE})|(?P<units>\d[\d,]{{2,}})(?![\d.]|\s?[年月日%kmbt])"
)
"""What goes on after a Chinese scale: “9亿1,400万”, “3万5000”."""
_UNIT_SCALE = re.compile(rf"(?<![a-z])(?:{_EN_SCALE})(?![a-z])|{_HAN_SCALE}", re.IGNORECASE)
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
        at = 0
        while (match := _AMOUNT.search(text, at)) is not None:
            value, at = _whole(text, match)
            plain = match["scale"] is None and match["sign"] is None
            if (
                not isfinite(value)
                or text.startswith("%", at)
                or (plain and (value < _PLAIN_FROM or int(value) in _YEARS))
            ):
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


def stated(value: float, unit: str) -> tuple[float, str]:
    """Return a figure that was given beside its unit as one plain number and the bare unit.

    ``9.14`` and “亿美元” give 914,000,000 and “美元”; ``100`` and “million USD” give 100,000,000 and “USD”.
    """
    folded = fold_han(unit)
    scale = _UNIT_SCALE.search(folded)
    if scale is None:
        return value, folded
    return round(value * _scale(scale[0].lower()), 6), " ".join(
        (folded[: scale.start()] + folded[scale.end() :]).split()
    )


def _whole(text: str, match: re.Match[str]) -> tuple[float, int]:
    """Return the value of an amount with all its parts, each smaller than the scale before it, and where it ends."""
    value, at, scale = _number(match["number"]) * _scale(match["scale"]), match.end(), _scale(match["scale"])
    while (match["scale"] or "")[-1:] in _HAN and (more := _MORE.match(text, at)) is not None:
        part = _number(more["units"] or more["number"]) * _scale(more["scale"])
        if part >= scale:
            break
        value, at, scale = value + part, more.end(), _scale(more["scale"])
    return value, at


def _number(digits: str) -> float:
    return float(digits.replace(",", ""))


def _scale(word: str | None) -> float:
    return _SCALE.get(word or "") or prod(_HAN.get(letter, 1.0) for letter in word or "")
