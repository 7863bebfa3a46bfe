"""Text from outside, made safe for a terminal: control characters are replaced by visible ones.

A terminal obeys what is printed: a title, a cleared screen, the clipboard (OSC 52), a link with a false text (OSC 8), a query
that it answers as if by keyboard (``ESC[6n``). Bidirectional overrides, embeddings and isolates reverse what a person reads,
and some programs treat U+2028 and U+2029 as line ends. U+200C and U+200D stay: Persian words and emoji need them. So do the
marks U+200E, U+200F and U+061C of headlines in Hebrew, Arabic and Persian: a mark only places neighbours without a direction.
"""

from __future__ import annotations

import re
import unicodedata

_ACTS = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
"""C0 without tab and ends of lines, DEL, C1, bidi controls and separators; lone surrogates, which no stream can encode."""
_ACTING = re.compile(f"[{_ACTS}]|\r(?!\n)")
_ACTING_IN_A_LINE = re.compile(f"[\t\n\r{_ACTS}]")


def printable(text: str) -> str:
    """Return the text with each control character as a visible one: ``␛`` for ESC and so on for C0 and DEL, else ``�``.

    Line feeds and tabs stay, and so does a carriage return before a line feed. Each character is replaced by one character,
    which takes a column, so measure the returned text. JSON output keeps the original character.
    """
    return _ACTING.sub(_shown, text)


def printable_line(text: str) -> str:
    """Return the same on one line: line feeds and tabs are visible too, so no text can imitate a line of ours."""
    return _ACTING_IN_A_LINE.sub(_shown, text)


def printable_json(document: str) -> str:
    r"""Return a JSON document with control characters as ``\u009b``. It decodes to the same value.

    The document must come from an encoder, so that such characters are only inside strings.
    """
    return _ACTING.sub(lambda match: f"\\u{ord(match[0]):04x}", document)


def _shown(match: re.Match[str]) -> str:
    code = ord(match[0])
    return chr(0x2400 + code) if code < 0x20 else "␡" if code == 0x7F else "\ufffd"


def shortened(text: str, length: int) -> str:
    """Return the text on one line, cut to ``length`` characters."""
    line = " ".join(text.split())
    return line if len(line) <= length else line[: length - 1] + "…"


def columns_of(text: str) -> int:
    """Return the columns that a terminal needs for a text at most: two for a Chinese character, and for one that is wide in
    some fonts.
    """
    return sum(2 if unicodedata.east_asian_width(c) in "WFA" else not unicodedata.combining(c) for c in text)


def fitted(text: str, columns: int) -> str:
    """Return the text on one line, cut to what :func:`columns_of` measures, and filled up with spaces to that width."""
    line = printable_line(" ".join(text.split()))
    if columns_of(line) > columns:
        while line and columns_of(line) > columns - columns_of("…"):
            line = line[:-1]
        line += "…"
    return line + " " * (columns - columns_of(line))


def counted(number: int, what: str) -> str:
    """Return ``1 day``, ``2,000 days``, ``2 stories``, ``2 misses``."""
    if number != 1:
        what = f"{what[:-1]}ies" if what.endswith("ry") else f"{what}es" if what[-1] == "s" else f"{what}s"
    return f"{number:,} {what}"


class Count(int):
    """A number that chooses the plural: ``{n:page|pages}`` is "1 page" or "2 pages"."""

    def __format__(self, forms: str) -> str:
        if "|" not in forms:
            return super().__format__(forms)
        singular, plural = forms.split("|")
        return f"{self:d} {singular if self == 1 else plural}"
