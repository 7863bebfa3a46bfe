"""Text normalisation, near-duplicate detection, and compilation of the tables' word lists."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any

from agents.text.han import simplified

CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
_UNIT = re.compile(rf"[{CJK}]|[^\W_{CJK}]+")
_HAS_CJK = re.compile(f"[{CJK}]")
NEVER = re.compile(r"(?!)")
"""Matches nothing: the pattern of an empty word list."""


def fold(text: str) -> str:
    """Return the text in NFKC form (no full-width characters), with plain quotes and single spaces."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text).replace("\u2019", "'").replace("\u2018", "'")
    return " ".join(text.split())


def fold_han(text: str) -> str:
    """Return :func:`fold` of the text in simplified characters: the form for comparing and matching."""
    return simplified(fold(text))


def has_cjk(text: str) -> bool:
    """Return whether the text contains Chinese, Japanese or Korean characters."""
    return _HAS_CJK.search(text) is not None


def width(text: str) -> int:
    """Return the length in columns: East-Asian wide and full-width characters count 2."""
    stripped = text.strip()
    if stripped.isascii():
        return len(stripped)
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in stripped)


def units(text: str) -> tuple[str, ...]:
    """Return the units of a text in order and in lower case: whole Latin words and numbers, single CJK characters."""
    return tuple(_UNIT.findall(text.lower()))


class Shape:
    """The features that near-duplicate detection compares: the set of units, and the set of pairs of neighbours."""

    def __init__(self, text: str, *, folded: bool = False) -> None:
        parts = self._parts = units(text if folded else fold_han(text))
        self.size = len(parts)
        self.singles = frozenset(parts)
        self.prefix = "".join(parts)[:120]

    @cached_property
    def pairs(self) -> frozenset[tuple[str, str]]:
        """The pairs of neighbours: most texts differ already in what is compared before them."""
        return frozenset(itertools.pairwise(self._parts))


_MIN_UNITS = 6
"""Shorter texts have too few units for overlap to be meaningful; they must be equal to count as duplicates."""


def near_duplicates(a: Shape, b: Shape, same: float = 0.55) -> bool:
    """Return whether two contents are the same text, up to small edits.

    The thresholds are our own, set on edited copies of newswire sentences against independent reports of one event.
    Edited copies share over 0.55 of their neighbour pairs (``same``, an overlap coefficient), independent reports under
    0.35, in zh and en alike. The overlap test requires similar lengths, so a report that quotes a notice stays a separate text.
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
    overlap = len(a.pairs & b.pairs) / max(1, min(len(a.pairs), len(b.pairs)))
    if overlap < same - 0.15:
        return False
    jaccard = len(a.singles & b.singles) / len(a.singles | b.singles)
    return jaccard >= 0.72 or (overlap >= same and jaccard >= 0.5)


def words_pattern(entries: Iterable[str]) -> str:
    """Return the alternation for a word list: ``approv*`` matches any ending, Latin words whole, CJK anywhere."""
    latin: dict[str, Any] = {}
    cjk: dict[str, Any] = {}
    for entry in entries:
        _plant(cjk if has_cjk(entry) else latin, fold_han(entry))
    parts = [rf"(?<![A-Za-z0-9]){_branches(latin)}(?![A-Za-z0-9])"] if latin else []
    parts += [_branches(cjk)] if cjk else []
    return "|".join(parts) or r"(?!)"


# The list becomes a prefix tree: Python's matcher would try a flat alternation word by word at every position.
def _plant(tree: dict[str, Any], entry: str) -> None:
    for letter in entry.removesuffix("*"):
        tree = tree.setdefault(letter, {})
    tree["*" if entry.endswith("*") else ""] = {}


def _branches(tree: dict[str, Any]) -> str:
    ends = [r"[a-z]*" if key == "*" else "" for key in ("*", "") if key in tree]
    longer = [re.escape(k) + (_branches(tree[k]) if tree[k] else "") for k in sorted(tree) if len(k) == 1 and k != "*"]
    options = [*longer, *ends]
    return options[0] if len(options) == 1 else f"(?:{'|'.join(options)})"


def words_regex(entries: Iterable[str]) -> re.Pattern[str]:
    """Compile :func:`words_pattern`, ignoring case."""
    return re.compile(words_pattern(entries), re.IGNORECASE)


class Words:
    """A pattern built from a word list, for folded texts in lower case. Every match contains an entry of the list.

    Most texts contain no entry. So the entries are searched for first, and the pattern is compiled only when one is
    found: most of a claim's own lists never are.
    """

    __slots__ = ("_beside", "_compiled", "_entries", "_given", "_stems")

    def __init__(
        self, entries: Iterable[str], pattern: Callable[[str], str] | None = None, beside: tuple[str, ...] = ()
    ) -> None:
        """``pattern`` turns :func:`words_pattern` of the entries into the pattern to match. Default: the words themselves.

        ``beside``: each match also contains one of these texts. Empty: no such condition.
        """
        self._entries = tuple(e.lower() for e in entries)
        self._given, self._beside = pattern, beside
        self._compiled: re.Pattern[str] | None = None
        self._stems = tuple(fold_han(e).removesuffix("*") for e in self._entries)

    def search(self, text: str) -> re.Match[str] | None:
        """Return the first match."""
        return self._pattern.search(text) if self._are_in(text) else None

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        """Return every match in order."""
        return self._pattern.finditer(text) if self._are_in(text) else iter(())

    def sub(self, by: str, text: str) -> str:
        """Return the text with ``by`` in place of every match."""
        return self._pattern.sub(by, text) if self._are_in(text) else text

    @property
    def _pattern(self) -> re.Pattern[str]:
        if self._compiled is None:
            pattern = words_pattern(self._entries)
            self._compiled = re.compile(pattern if self._given is None else self._given(pattern))
        return self._compiled

    def _are_in(self, text: str) -> bool:
        return holds_any(text, self._stems) and (not self._beside or holds_any(text, self._beside))


def holds_any(text: str, words: tuple[str, ...]) -> bool:
    """Return whether a text contains one of the words anywhere."""
    for word in words:  # noqa: SIM110 - a generator costs more than what it runs
        if word in text:
            return True
    return False
