"""The check of a critic's quote: the words must stand in the title or in the passage that the critic was shown.

Compared without case, widths, Han variants, kinds of quotation marks and dashes, white space, Markdown and links; never
across title and passage. A quote may be cut with an ellipsis: then each part is found, in order.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from agents.evidence.amounts import Amounts, share
from agents.text.matching import fold_han, has_cjk

MIN_LATIN, MIN_HAN = 12, 6
"""Characters of each part of a quote."""
_LINK = re.compile(r"!?\[([^\[\]]*)\]\((?:[^()]|\([^()]*\))*\)|(?:https?://|www\.)\S+")
_EMPHASIS = re.compile(r"[*_`]+")
_MARKS = re.compile(r"[#>|]+")
_QUOTES = re.compile(r"[\"'\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u00ab\u00bb\u300c\u300d\u300e\u300f\u2032\u2033]")
_DASHES = re.compile(r"[-\u2010-\u2015\u2212\uff0d~\uff5e]+")
_BESIDE_HAN = re.compile(r"(?<=[\u3400-\u9fff]) | (?=[\u3400-\u9fff])")
_SPACE = re.compile(r"\s+")
_CUT = re.compile(r"\u2026|\.{3,}|\[\s*(?:\.{2,}|\u2026)\s*\]")
_SENTENCE_ENDS = re.compile(r"(?<=[。!?;])|(?<=[.!?;])\s")


_SHINJITAI = str.maketrans("庁価証経済発売図関気対実両団権国会学", "厅价证经济发卖图关气对实两团权国会学")
"""Japanese forms of characters that names of authorities and companies hold, to their simplified Chinese ones."""


def folded(text: str) -> str:
    """Return the form in which quotes and pages are compared."""
    plain = fold_han(text if text.isascii() else text.translate(_SHINJITAI))
    if "[" in plain or "http" in plain or "www." in plain:
        plain = _LINK.sub(lambda m: m[1] or " ", plain)
    plain = _MARKS.sub(" ", _EMPHASIS.sub("", plain))
    plain = _DASHES.sub("-", _QUOTES.sub(" ", plain)).casefold()
    plain = _SPACE.sub(" ", plain).strip()
    # Chinese is written with and without spaces beside Latin words.
    return plain if plain.isascii() else _BESIDE_HAN.sub("", plain)


def sentences_of(quote: str, title: str, passage: str) -> list[str]:
    """Return the folded sentences that hold the quote; none when it does not stand in the title or in the passage."""
    parts = [p for part in _CUT.split(quote) if (p := folded(part).strip(" .,;:-"))]
    if not parts or any(len(p) < (MIN_HAN if has_cjk(p) else MIN_LATIN) for p in parts):
        return []
    return _around(parts, folded(title)) or _around(parts, folded(passage))


def names_any(text: str, names: Collection[str], amounts: frozenset[float] = frozenset()) -> bool:
    """Whether a folded text names one of the names (folded), or one of the amounts (plain numbers)."""
    return any(_named(n, text) for n in names) or (bool(amounts) and share(Amounts(text).given, amounts))


def _around(parts: list[str], text: str) -> list[str]:
    """Return the sentences that hold the parts, if all of them stand in the text in order."""
    at, found = 0, []
    for part in parts:
        start = text.find(part, at)
        if start < 0:
            return []
        at = start + len(part)
        before = max((m.end() for m in _SENTENCE_ENDS.finditer(text, 0, start)), default=0)
        after = _SENTENCE_ENDS.search(text, max(start, at - 1))
        found.append(text[before : after.start() if after else len(text)])
    return found


def _named(name: str, sentence: str) -> bool:
    if not name.isascii():
        return name in sentence
    return re.search(rf"(?<![a-z0-9]){re.escape(name)}(?![a-z0-9])", sentence) is not None
