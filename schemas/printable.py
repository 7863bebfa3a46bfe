"""Text from outside as a terminal may be given it: characters that act instead of showing are replaced by ones that show.

A terminal obeys what is printed: a title, a cleared screen, a clipboard (OSC 52), a link whose words lie (OSC 8), a question
that it answers as if by keyboard (``ESC[6n``). Bidirectional controls turn round what a person reads, and some programs
take U+2028 and U+2029 for ends of lines. U+200C and U+200D stay: Persian words and emoji are made with them.
"""

from __future__ import annotations

import re

_ACTS = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
"""C0 without tab and line feed, DEL, C1, bidi controls and separators; lone surrogates, which no stream can encode."""
_ACTING = re.compile(f"[{_ACTS}]")
_ACTING_IN_A_LINE = re.compile(f"[\t\n{_ACTS}]")


def printable(text: str) -> str:
    """Return the text with each acting character as one that shows: ``␛`` for ESC and so on for C0 and DEL, else ``�``.

    Line feeds and tabs stay. One character stands for one, so columns keep their width. JSON tells which one it was.
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
