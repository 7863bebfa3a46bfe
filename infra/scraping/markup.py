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


_COMMENT = re.compile(r"/\*[^*]*+(?:\*(?!/)[^*]*+)*+\*/")
_ESCAPE = re.compile(r"\\([0-9a-f]{1,6})\s?")
_NOTHING = re.compile(r"[+-]?0*\.?0*(?:px|r?em|ex|ch|pt|pc|cm|mm|in|q|vw|vh|%)?")
_TINY = re.compile(r"0*(?:[01]?(?:\.\d*)?)(?:px|pt)|0*\.0\d*(?:r?em)?|[01]?(?:\.\d*)?%")
"""A size of letters that nobody reads."""
_FAINT = re.compile(r"0*(?:\.0\d*)?%?|[0-4](?:\.\d*)?%")
"""An opacity below 0.1, or 5 %."""
_FAR_AWAY = re.compile(r"-\s*(?:\d{3,}(?:\.\d*)?px|\d{2,}(?:\.\d*)?(?:r?em|vw|vh)|[1-9]\d{2,}(?:\.\d*)?%)")
_CLIPPED = re.compile(r"(?:rect\((?:[01](?:px)?,?){4}\)|inset\((?:[5-9]\d|100)%|circle\(0)")
_NO_COLOUR = re.compile(
    r"transparent|(?:rgb|hsl)a?\((?:(?:[^,/)]*,){3}|[^,/)]*/)0*(?:\.0\d*)?%?\)|#[0-9a-f]{6}0[0-9a-f]|#[0-9a-f]{3}0"
)
_FLAT = re.compile(r"(?:scale[xy3d]*\((?:[^)]*,)?0(?:\.0\d*)?[,)]|matrix\(0)")


def hides(style: str) -> bool:
    """Whether an inline style keeps an element from being seen: instructions for models hide there.

    Linear time. Not seen through: style sheets, classes, variables, and another element laid over it.
    """
    plain = _ESCAPE.sub(lambda m: chr(min(int(m[1], 16), 0x10FFFF)), _COMMENT.sub("", style.lower()))
    said = {}
    for declaration in plain.split(";"):
        name, _, value = declaration.partition(":")
        said[name.strip()] = "".join(value.replace("!important", "").split())
    boxed = "hidden" in (said.get("overflow", ""), said.get("overflow-x", ""), said.get("overflow-y", ""))
    background = said.get("background-color") or said.get("background")
    return (
        said.get("display") == "none"
        or said.get("visibility") in ("hidden", "collapse")
        or said.get("content-visibility") == "hidden"
        or _is(_NOTHING, said.get("font-size")) or _is(_TINY, said.get("font-size"))
        or _is(_FAINT, said.get("opacity"))
        or _is(_NO_COLOUR, said.get("color")) or _is(_NO_COLOUR, said.get("-webkit-text-fill-color"))
        or (background is not None and said.get("color") == background)
        or any(_is(_FAR_AWAY, said.get(name)) for name in ("text-indent", "left", "top", "right", "margin-left", "margin-top"))
        or any(_CLIPPED.match(said.get(name, "")) is not None for name in ("clip", "clip-path"))
        or _FLAT.search(said.get("transform", "")) is not None
        or (boxed and any(_is(_NOTHING, said.get(name)) for name in ("width", "height", "max-width", "max-height")))
    )  # fmt: skip


def _is(pattern: re.Pattern[str], value: str | None) -> bool:
    return bool(value) and pattern.fullmatch(str(value)) is not None
