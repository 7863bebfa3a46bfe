"""Text normalisation, near-duplicate detection, and compilation of the tables' word lists."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from agents.text.han import simplified

CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
_UNIT = re.compile(rf"[{CJK}]|[^\W_{CJK}]+")
_HAS_CJK = re.compile(f"[{CJK}]")
NEVER = re.compile(r"(?!)")
"""Matches nothing: the pattern of an empty word list."""


def fold(text: str) -> str:
    """Return the text in NFKC form (no full-width characters), with plain quotes and single spaces."""
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text)
    return " ".join(plain.replace("\u2019", "'").replace("\u2018", "'").split())


def fold_han(text: str) -> str:
    """Return :func:`fold` of the text in simplified characters: the form for comparing and matching."""
    return simplified(fold(text))


def has_cjk(text: str) -> bool:
    """Whether the text contains Chinese, Japanese or Korean characters."""
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

    __slots__ = ("pairs", "prefix", "singles", "size")

    def __init__(self, text: str, *, folded: bool = False) -> None:
        parts = units(text if folded else fold_han(text))
        self.size = len(parts)
        self.singles = frozenset(parts)
        self.pairs = frozenset(itertools.pairwise(parts))
        self.prefix = "".join(parts)[:120]


_MIN_UNITS = 6
"""Shorter texts have too few units for overlap to be meaningful; they must be equal to count as duplicates."""


def near_duplicates(a: Shape, b: Shape, same: float = 0.55) -> bool:
    """Whether two contents are the same text, up to small edits.

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


_BEGINNING = 4
"""Characters of a beginning: fewer stand in every text, more are shared by too few entries."""


class Words:
    """A pattern of which every match holds an entry of a word list, for folded texts in lower case.

    Most texts hold none, and to look for the entries first is several times faster than to match: it is done in C.
    """

    __slots__ = ("_ascii", "_ascii_beside", "_beside", "_fragments", "_pattern")

    def __init__(
        self, entries: Iterable[str], pattern: re.Pattern[str] | None = None, beside: Iterable[str] = ()
    ) -> None:
        """``pattern``: what is matched where an entry is there; by default :func:`words_pattern` of the entries.

        ``beside``: texts of which each match holds one, too; none given: nothing is asked of it.
        """
        given = [e.lower() for e in entries]
        self._pattern = re.compile(words_pattern(given)) if pattern is None else pattern
        self._fragments = _fragments(fold_han(e).removesuffix("*") for e in given)
        self._ascii = tuple(e for e in self._fragments if e.isascii())
        self._beside = tuple(beside)
        self._ascii_beside = tuple(e for e in self._beside if e.isascii())

    def search(self, text: str) -> re.Match[str] | None:
        """Return the first match."""
        return self._pattern.search(text) if self._are_in(text) else None

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        """Return every match in order."""
        return self._pattern.finditer(text) if self._are_in(text) else iter(())

    def sub(self, by: str, text: str) -> str:
        """Return the text with ``by`` in place of every match."""
        return self._pattern.sub(by, text) if self._are_in(text) else text

    def _are_in(self, text: str) -> bool:
        if text.isascii():
            return holds_any(text, self._ascii) and (not self._beside or holds_any(text, self._ascii_beside))
        return holds_any(text, self._fragments) and (not self._beside or holds_any(text, self._beside))


def holds_any(text: str, words: tuple[str, ...]) -> bool:
    """Whether a text holds one of the words anywhere."""
    for word in words:  # noqa: SIM110 - a generator costs more than what it runs
        if word in text:
            return True
    return False


def _fragments(entries: Iterable[str]) -> tuple[str, ...]:
    """Return few texts of which every entry holds one: entries themselves, and beginnings that three or more share."""
    plain = set(entries)
    shared = Counter(e[:_BEGINNING] for e in plain if len(e) > _BEGINNING)
    wanted = {e[:_BEGINNING] if shared[e[:_BEGINNING]] > 2 else e for e in plain}
    few: list[str] = []
    for entry in sorted(wanted, key=lambda e: (len(e), e)):
        if not any(known in entry for known in few):
            few.append(entry)
    return tuple(few)
