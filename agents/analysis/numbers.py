"""The check for numbers in an agent's text that none of its input figures supports.

A written number matches a figure if it is a rounding of it: "61.9k", "61,900" and "6.19 万" all match 61,873, and so
does "about 62,000". Dates, times, periods ("24h", "RSI-14", "200-day"), years, citations, list numbers and small counts
("3 of 5") are ignored. The check covers words, not reasoning: a number that matches a figure by chance passes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec

MAX_LISTED = 12
_SCALE = {
    "k": 1e3,
    "K": 1e3,
    "M": 1e6,
    "m": 1e6,
    "mn": 1e6,
    "million": 1e6,
    "B": 1e9,
    "bn": 1e9,
    "billion": 1e9,
    "T": 1e12,
    "tn": 1e12,
    "trillion": 1e12,
    "千": 1e3,
    "万": 1e4,
    "百万": 1e6,
    "千万": 1e7,
    "亿": 1e8,
    "万亿": 1e12,
}
_SUFFIX = "|".join(sorted(map(re.escape, _SCALE), key=len, reverse=True))
_NUMBER = re.compile(
    r"(?P<currency>[$€£¥])?\s?(?P<digits>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)"
    rf"(?:\s?(?P<suffix>{_SUFFIX})(?![A-Za-z]))?(?:\s?(?P<percent>[%\uff05\u2030]|per ?cent\b|bps?\b|basis points?))?"
)
_AFTER = r"(?![A-Za-z])"  # not \b, for which a Chinese character is a word character too
_NOT_INSIDE = r"(?<![\d.,])"
_UNIT_OF_TIME = (
    r"(?:-?\s?(?:h|hr|hrs|hours?|d|days?|w|weeks?|months?|mo|y|yr|years?|min|minutes?|s|seconds?|bars?|candles?"
    r"|periods?)" + _AFTER + r"|\s?个?(?:小时|分钟|秒|天|日|周|月|年|季|根|期))"
)
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sept?|oct|nov|dec)[a-z]{0,6}\.?"
_NO_FIGURES = tuple(
    re.compile(pattern, re.MULTILINE | flags)
    for pattern, flags in (
        # Dates and times
        (r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?:[T ]\d{1,2}:\d{2}(?::\d{2})?)?", 0),
        (_NOT_INSIDE + r"\d{1,2}:\d{2}(?::\d{2})?", 0),
        (r"\d{4}\s?年(?:\s?\d{1,2}\s?月)?(?:\s?\d{1,2}\s?[日号])?|\d{1,2}\s?月\s?\d{1,2}\s?[日号]", 0),
        (_MONTH + r"\s+\d{1,2}(?:st|nd|rd|th)?(?!\d)(?:,?\s+\d{4})?", re.IGNORECASE),
        (_NOT_INSIDE + r"\d{1,2}(?:st|nd|rd|th)?\s+" + _MONTH + r"(?:\s+\d{4})?" + _AFTER, re.IGNORECASE),
        (_MONTH + r"\s+\d{4}(?!\d)", re.IGNORECASE),
        (r"\bUTC\s?[+-]?\s?\d{1,2}|24/7|(?<![A-Za-z])[QH][1-4](?!\d)", 0),
        (r"\b(?:in|since|by|during|from|until|before|after|early|late|mid|of)[ -](?:19|20)\d{2}(?![\d.,]*\d)", re.I),
        # Citations and list numbers
        (r"\[\d{1,4}(?:\s?,\s?\d{1,4})*\]", 0),
        (r"^\s{0,20}(?:#+\s*)?\d{1,2}[.)\u3001]\s", 0),
        # Parameters of an indicator, RSI (14) or MACD(12, 26, 9); then names: RSI-14, EMA20, M2, ERC-20, web3.
        (r"(?<![A-Za-z])[A-Z]{2,12}\s?[(\uff08]\s?\d{1,3}(?:\s?[,\uff0c/]\s?\d{1,3}(?:\.\d)?)*\s?[)\uff09]", 0),
        (r"(?<![A-Za-z])(?!USD|EUR|GBP|CNY|RMB)[A-Za-z][A-Za-z_-]{0,30}\d{1,4}(?:/\d{1,3})*(?!\d|[.,]\d|\s?%)", 0),
        # Periods
        (_NOT_INSIDE + r"\d{1,4}(?:\.\d+)?" + _UNIT_OF_TIME, re.IGNORECASE),
        (_NOT_INSIDE + r"\d{1,3}\s?[-\u2013~至到]\s?\d{1,3}" + _UNIT_OF_TIME, re.IGNORECASE),
        (_NOT_INSIDE + r"\d+(?:st|nd|rd|th)" + _AFTER, re.IGNORECASE),
    )
)
_STATES = re.compile(r"(?:\b(?:at|is|was|near|about|around|to)|[=:\uff1a为达到约至在是报])\s*$", re.IGNORECASE)
_COUNT_MAX = 10


class Written(msgspec.Struct, frozen=True):
    """A number in a text: ``value``, rounding tolerance ``slack``, and whether it is ``bare`` (digits alone)."""

    text: str
    value: float
    slack: float
    percent: bool
    bare: bool


def unsupported_numbers(
    text: str, figures: Iterable[float], *, texts: Iterable[str] = (), scales: Iterable[float] = ()
) -> tuple[str, ...]:
    """Return the numbers of ``text`` that no figure supports, as written, each once, at most twelve.

    Numbers in ``texts``, the other text input, count as supported. ``scales`` are scale marks, such as 70 for an RSI;
    they support only a bare number.
    """
    known = [abs(f) for f in figures]
    supported = [w for given in texts for w in written(given)]
    marks = set(scales)
    unsupported = (
        w.text
        for w in written(text)
        if not (w.bare and w.value in marks)
        and not any(_stands_for(w, figure) for figure in known)
        and not any(abs(s.value - w.value) <= max(s.slack, w.slack) for s in supported)
    )
    return tuple(dict.fromkeys(unsupported))[:MAX_LISTED]


def written(text: str) -> Iterator[Written]:
    """Yield the figures that a text states, in order, without dates, periods, counts and names."""
    plain = text
    for pattern in _NO_FIGURES:
        plain = pattern.sub(lambda m: " " * len(m[0]), plain)
    for match in _NUMBER.finditer(plain):
        number = _written(match)
        if not (number.bare and _is_count(number, plain[: match.start()])):
            yield number


def _written(match: re.Match[str]) -> Written:
    digits = match["digits"].replace(",", "")
    scale = _SCALE[match["suffix"]] if match["suffix"] else 1.0
    percent = match["percent"] is not None
    if percent and match["percent"].startswith(("b", "B")):
        scale /= 100.0  # a basis point is a hundredth of a per cent
    value = float(digits) * scale
    return Written(
        text=match[0].strip(),
        value=value,
        slack=_slack(digits, scale, value),
        percent=percent,
        bare=not (match["currency"] or match["suffix"] or percent or "." in digits or "," in match["digits"]),
    )


def _slack(digits: str, scale: float, value: float) -> float:
    """Return half of the last written place. A round number may be rounded further, by up to 1 %."""
    whole, _, decimals = digits.partition(".")
    half = 0.5 * 10.0 ** -len(decimals) * scale
    if scale > 1:
        return min(half, 0.05 * value)
    if not decimals and len(whole) > 2:
        zeros = len(whole) - len(whole.rstrip("0"))
        return max(half, min(0.5 * 10.0**zeros, 0.01 * value)) if zeros else half
    return half


def _stands_for(number: Written, figure: float) -> bool:
    candidates = (figure, 100.0 * figure) if number.percent else (figure,)
    return any(abs(number.value - c) <= number.slack * (1 + 1e-9) + 1e-12 for c in candidates)


def _is_count(number: Written, before: str) -> bool:
    return number.value <= _COUNT_MAX and _STATES.search(before[-12:]) is None
