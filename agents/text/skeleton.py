"""Folding of look-alike characters, so that texts that look the same to a person compare equal.

Source: the letters of Unicode's confusables (UTS #39) that imitate a-z in Cyrillic, Greek, Armenian and
Latin extensions; only those that browsers show in host names.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_LOOK_ALIKES = {
    "a": "аɑαạąāăȧ",
    "b": "ƅьЬʙ",
    "c": "сϲƈċҫ",
    "d": "ԁɗđ",
    "e": "еёєҽɛẹęēėě",
    "f": "ƒ",
    "g": "ɡցġğǥ",
    "h": "һհḥ",
    "i": "іїıɩιịįīӏ",
    "j": "јϳ",
    "k": "кκқķ",
    "l": "ⅼłļľ",
    "m": "мṃ",
    "n": "ոпηńņňռ",
    "o": "оοօөơọōőø",
    "p": "рρҏ",
    "q": "ԛզ",
    "r": "гŗřɾ",
    "s": "ѕꜱśşṣš",
    "t": "тτţťṭ",
    "u": "υսцμųūůư",
    "v": "νѵ",
    "w": "ԝѡшωա",
    "x": "хχҳ",
    "y": "уүγỵỳ",
    "z": "ᴢźżžẓ",
}
_UPPER = {"А": "a", "В": "b", "С": "c", "Е": "e", "Н": "h", "І": "i", "Ј": "j", "К": "k", "М": "m", "О": "o", "Р": "p",
          "Ѕ": "s", "Т": "t", "Х": "x", "У": "y", "Α": "a", "Β": "b", "Ε": "e", "Η": "h", "Ι": "i", "Κ": "k", "Μ": "m",
          "Ν": "n", "Ο": "o", "Ρ": "p", "Τ": "t", "Χ": "x", "Υ": "y", "Ζ": "z"}  # fmt: skip
_TABLE = str.maketrans({odd: plain for plain, odds in _LOOK_ALIKES.items() for odd in odds} | _UPPER)
_MARKS = re.compile("[\u0300-\u036f\u0483-\u0487\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\u3099\u309a\ufe20-\ufe2f]")
"""Combining marks."""
_DIGITS = str.maketrans(
    {"0": "o", "1": "l", "3": "e", "4": "a", "5": "s", "7": "t", "8": "b", "i": "l", "j": "l", "|": "l"}
)


def ascii_skeleton(text: str) -> str:
    """Return the text with foreign look-alikes of Latin letters replaced, and accents removed."""
    if text.isascii():
        return text
    swapped = unicodedata.normalize("NFKC", text).translate(_TABLE)
    return _MARKS.sub("", unicodedata.normalize("NFKD", swapped))


def without_marks(text: str) -> str:
    """Return the text without accents; letters stay in their script."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", _MARKS.sub("", unicodedata.normalize("NFKD", text)))


@lru_cache(maxsize=4096)
def host_skeleton(label: str) -> str:
    """Return the visual form of a host name's label: also folds digits and pairs such as ``rn`` (m), ``vv`` (w)."""
    folded = ascii_skeleton(label.lower()).lower().replace("rn", "m").replace("vv", "w").replace("cl", "d")
    return folded.translate(_DIGITS)
