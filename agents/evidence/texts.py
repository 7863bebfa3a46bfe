"""Texts as the judgement sees them: folded, measured, compared, and matched against word lists of the tables."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterable

CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
_UNIT = re.compile(rf"[{CJK}]|[^\W_{CJK}]+")
_HAS_CJK = re.compile(f"[{CJK}]")
_SPACE = re.compile(r"\s+")
NEVER = re.compile(r"(?!)")
"""Matches nothing: the pattern of an empty word list."""


def fold(text: str) -> str:
    """Return the text in compatible Unicode form (no full width), with plain quotes and single spaces."""
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text)
    return _SPACE.sub(" ", plain.replace("\u2019", "'").replace("\u2018", "'")).strip()


def has_cjk(text: str) -> bool:
    """Whether the text holds Chinese, Japanese or Korean characters."""
    return _HAS_CJK.search(text) is not None


def width(text: str) -> int:
    """Return the length in columns: East-Asian wide and full-width characters count 2."""
    stripped = text.strip()
    if stripped.isascii():
        return len(stripped)
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in stripped)


def units(text: str) -> tuple[str, ...]:
    """Return the words of a text in order: Latin words and numbers whole, CJK characters one by one, in lower case."""
    return tuple(_UNIT.findall(text.lower()))


class Shape:
    """What near-duplicate search compares: the set of units, and the set of pairs of neighbours."""

    __slots__ = ("pairs", "prefix", "singles", "size")

    def __init__(self, text: str) -> None:
        parts = units(fold(text))
        self.size = len(parts)
        self.singles = frozenset(parts)
        self.pairs = frozenset(itertools.pairwise(parts))
        self.prefix = "".join(parts)[:120]


_MIN_UNITS = 6
"""Shorter texts say too little to be told apart by overlap; only equal ones are the same."""


def near_duplicates(a: Shape, b: Shape) -> bool:
    """Whether two contents are one text, up to small edits.

    Own thresholds, set on edited copies of newswire sentences against independent reports of one event: edited copies
    share over 0.55 of their neighbour pairs (overlap coefficient), independent reports under 0.35, in zh and en alike.
    The overlap test needs similar lengths, so that a report which quotes a notice stays its own text.
    """
    if a.singles == b.singles and a.pairs == b.pairs:
        return True
    small, large = sorted((a.size, b.size))
    if small < _MIN_UNITS:
        return False
    if a.prefix == b.prefix and len(a.prefix) >= 40:
        return True
    if large > 1.8 * small:
        return False
    shared = len(a.singles & b.singles)
    jaccard = shared / len(a.singles | b.singles)
    overlap = len(a.pairs & b.pairs) / max(1, min(len(a.pairs), len(b.pairs)))
    return (jaccard >= 0.72 and overlap >= 0.4) or (overlap >= 0.55 and jaccard >= 0.5)


def words_pattern(entries: Iterable[str]) -> str:
    """Return the alternation for a word list: ``approv*`` matches any ending, Latin words whole, CJK anywhere."""
    latin: list[str] = []
    cjk: list[str] = []
    for entry in sorted(set(entries), key=lambda e: (-len(e), e)):
        if has_cjk(entry):
            cjk.append(re.escape(fold(entry)))
        elif entry.endswith("*"):
            latin.append(re.escape(fold(entry[:-1])) + r"[a-z]*")
        else:
            latin.append(re.escape(fold(entry)))
    parts = [rf"(?<![A-Za-z0-9])(?:{'|'.join(latin)})(?![A-Za-z0-9])"] if latin else []
    return "|".join(parts + cjk) or r"(?!)"


def words_regex(entries: Iterable[str]) -> re.Pattern[str]:
    """Compile :func:`words_pattern`, without regard to case."""
    return re.compile(words_pattern(entries), re.IGNORECASE)
