"""Text from outside as a terminal may be given it: characters that act instead of showing are replaced by ones that show.

A terminal obeys what is printed: a title, a cleared screen, a clipboard (OSC 52), a link whose words lie (OSC 8), a question
that it answers as if by keyboard (``ESC[6n``). Bidirectional overrides, embeddings and isolates turn round what a person
reads, and some programs take U+2028 and U+2029 for ends of lines. U+200C and U+200D stay: Persian words and emoji are made
with them; and the marks U+200E, U+200F and U+061C, which headlines in Hebrew, Arabic and Persian have: a mark places the
neighbours that have no direction of their own, and turns no word round.
"""

from __future__ import annotations

import re

_ACTS = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
"""C0 without tab and ends of lines, DEL, C1, bidi controls and separators; lone surrogates, which no stream can encode."""
_ACTING = re.compile(f"[{_ACTS}]|\r(?!\n)")
_ACTING_IN_A_LINE = re.compile(f"[\t\n\r{_ACTS}]")


def printable(text: str) -> str:
    """Return the text with each acting character as one that shows: ``␛`` for ESC and so on for C0 and DEL, else ``�``.

    Line feeds and tabs stay, and a carriage return before a line feed: together they end a line, and a file has them as
    they were. One character stands for one, but a terminal gave the first no column: who measures, measures what this
    returns. JSON tells which one it was.
    """
    return _ACTING.sub(_shown, text)


def printable_line(text: str) -> str:
    """Return the same on one line: a line feed and a tab are shown too, so that no text can imitate a line of ours."""
    return _ACTING_IN_A_LINE.sub(_shown, text)


def printable_json(document: str) -> str:
    r"""Return a JSON document in which acting characters are written ``\u009b``; it reads as the same value.

    For what an encoder wrote: such characters stand inside its strings alone.
    """
    return _ACTING.sub(lambda match: f"\\u{ord(match[0]):04x}", document)


def _shown(match: re.Match[str]) -> str:
    code = ord(match[0])
    return chr(0x2400 + code) if code < 0x20 else "␡" if code == 0x7F else "\ufffd"


def shortened(text: str, length: int) -> str:
    """Return the text on one line, cut to ``length`` characters."""
    line = " ".join(text.split())
    return line if len(line) <= length else line[: length - 1] + "…"


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
        one, many = forms.split("|")
        return f"{self:d} {one if self == 1 else many}"
