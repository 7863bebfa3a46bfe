"""From the bytes of a page to its text: the character set, and letters that nobody sees."""

from __future__ import annotations

import codecs
import re
import unicodedata

from charset_normalizer import from_bytes

from infra.charsets import CODECS, codec_of, text_of

_DECLARED = re.compile(
    rb"""<(?:meta|\?xml)[^>]{0,300}?(?:charset|encoding)\s*=\s*["']?\s*([A-Za-z0-9_:.-]{2,40})""", re.I
)
_HEAD_BYTES = 4096
_MAX_BROKEN = 0.01
"""Share of unreadable characters from which on a declared set is not believed."""
_INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Co", "Cs", "Cn"})
_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0\u2800") | {chr(c) for c in range(0xFE00, 0xFE10)}
_BLANK_LINES = re.compile(r"\n\s*\n\s*")


def decoded(body: bytes, content_type: str) -> str:
    """Return the text by byte order mark, header, what the page declares, UTF-8, and a guess, in this order.

    Only the character sets of :mod:`infra.charsets` are believed, so the time is linear whatever a page names.
    """
    for mark, codec in (
        (codecs.BOM_UTF8, "utf_8"),
        (codecs.BOM_UTF16_LE, "utf_16_le"),
        (codecs.BOM_UTF16_BE, "utf_16_be"),
    ):
        if body.startswith(mark):
            return text_of(body[len(mark) :], codec)
    header = re.search(r"charset\s*=\s*[\"']?([\w.:-]+)", content_type, re.I)
    declared = _DECLARED.search(body[:_HEAD_BYTES])
    for label in (header[1] if header else "", declared[1].decode("ascii") if declared else "", "utf-8"):
        text = _by_label(body, label)
        if text is not None:
            return text
    guess = from_bytes(body[:65536], cp_isolation=list(CODECS)).best()
    return text_of(body, guess.encoding if guess and guess.encoding in CODECS else "utf_8")


def _by_label(body: bytes, label: str) -> str | None:
    codec = codec_of(label)
    text = text_of(body, codec) if codec else ""
    return text if text and text.count("\ufffd") <= len(text) * _MAX_BROKEN else None


def visible(text: str) -> str:
    """Return the text without characters that nobody sees, in composed form; blank lines are single."""
    kept = "".join(c for c in text if c in "\n\t" or not _hidden(c))
    lines = (" ".join(line.split()) for line in unicodedata.normalize("NFC", kept).split("\n"))
    return _BLANK_LINES.sub("\n\n", "\n".join(lines)).strip()


def _hidden(char: str) -> bool:
    return char in _INVISIBLE or 0xE0100 <= ord(char) <= 0xE01EF or unicodedata.category(char) in _INVISIBLE_CATEGORIES
