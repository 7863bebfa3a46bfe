"""Decoding of a page's bytes, and detection of text that is invisible to readers."""

from __future__ import annotations

import codecs
import re
import unicodedata

from charset_normalizer import from_bytes

from infra.pages.charsets import CODECS, codec_of, text_of

_DECLARED = re.compile(
    rb"""<(?:meta|\?xml)[^>]{0,300}?(?:charset|encoding)\s*=\s*["']?\s*([A-Za-z0-9_:.-]{2,40})""", re.I
)
_HEAD_BYTES = 4096
_MAX_BROKEN = 0.01
"""Share of undecodable characters above which a declared character set is rejected."""
_INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Co", "Cs", "Cn"})
_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0\u2800") | {chr(c) for c in range(0xFE00, 0xFE10)}
_BLANK_LINES = re.compile(r"\n\s*\n\s*")


def decoded(body: bytes, content_type: str) -> str:
    """Decode by byte order mark, header, the page's declaration, UTF-8, or a guess, in this order.

    Only the character sets of :mod:`infra.pages.charsets` are accepted, so the time is linear whatever a page declares.
    """
    for mark, marked in (
        (codecs.BOM_UTF8, "utf_8"),
        (codecs.BOM_UTF16_LE, "utf_16_le"),
        (codecs.BOM_UTF16_BE, "utf_16_be"),
    ):
        if body.startswith(mark):
            return text_of(body[len(mark) :], marked)
    header = re.search(r"charset\s*=\s*[\"']?([\w.:-]+)", content_type, re.I)
    declared = _DECLARED.search(body[:_HEAD_BYTES])
    by_page = codec_of(declared[1].decode("ascii")) if declared else None
    if by_page in ("utf_16_le", "utf_16_be"):
        # The declaration was read as single bytes, so the page is not UTF-16
        # (https://html.spec.whatwg.org/#prescan-a-byte-stream-to-determine-its-encoding).
        by_page = "utf_8"
    for codec in (codec_of(header[1]) if header else None, by_page, "utf_8"):
        text = _by_codec(body, codec)
        if text is not None:
            return text
    guess = from_bytes(body[:65536], cp_isolation=list(CODECS)).best()
    return text_of(body, guess.encoding if guess and guess.encoding in CODECS else "utf_8")


def _by_codec(body: bytes, codec: str | None) -> str | None:
    text = text_of(body, codec) if codec else ""
    return text if text and text.count("\ufffd") <= len(text) * _MAX_BROKEN else None


def visible(text: str) -> str:
    """Remove invisible characters, normalise to NFC, and collapse blank lines to one."""
    kept = "".join(c for c in text if c in "\n\t" or not _hidden(c))
    lines = (" ".join(line.split()) for line in unicodedata.normalize("NFC", kept).split("\n"))
    return _BLANK_LINES.sub("\n\n", "\n".join(lines)).strip()


def _hidden(char: str) -> bool:
    return char in _INVISIBLE or 0xE0100 <= ord(char) <= 0xE01EF or unicodedata.category(char) in _INVISIBLE_CATEGORIES


_COMMENT = re.compile(r"/\*[^*]*+(?:\*(?!/)[^*]*+)*+(?:\*/|\Z)")
"""An unclosed comment extends to the end, as in a browser."""
_ESCAPE = re.compile(r"\\([0-9a-f]{1,6})\s?")
# Possessive throughout: untrusted text must not make a pattern backtrack.
_NOTHING = re.compile(r"[+-]?(?:0++(?:\.0*+)?|\.0++)(?:px|r?em|ex|ch|pt|pc|cm|mm|in|q|vw|vh|%)?")
_TINY = re.compile(r"0*+1?(?:\.\d*+)?(?:px|pt)|0*+\.0\d*+(?:r?em)?|[01]?(?:\.\d*+)?%")
"""A font size that is too small to read."""
_FAINT = re.compile(r"0*+(?:\.0\d*+)?%?|[0-4](?:\.\d*+)?%")
"""An opacity below 0.1, or 5 %."""
_FAR_AWAY = re.compile(
    r"-0*+(?:(?:999|[1-9]\d{3,}+)(?:\.\d*+)?p[xt]|(?:[6-9]\d|[1-9]\d{2,}+)(?:\.\d*+)?r?em|[1-9]\d{2,}+(?:\.\d*+)?(?:vw|vh|%))"
)
_FURTHER_AWAY = re.compile(
    r"-0*+(?:(?:[2-9]\d{3}|[1-9]\d{4,}+)(?:\.\d*+)?p[xt]|(?:[2-9]\d{2}|[1-9]\d{3,}+)(?:\.\d*+)?(?:r?em|vw|vh|%))"
)
"""For properties that ordinary layouts use to shift sections by as much as a screen."""
_AWAY = dict.fromkeys(("left", "text-indent"), _FAR_AWAY) | dict.fromkeys(
    ("top", "right", "margin-left", "margin-top"), _FURTHER_AWAY
)
_CLIPPED = re.compile(r"(?:rect\((?:[01](?:px)?,?){4}\)|inset\((?:[5-9]\d|100)%|circle\(0)")
_NO_COLOUR = re.compile(
    r"transparent|(?:rgb|hsl)a?\((?:(?:[^,/)]*+,){3}|[^,/)]*+/)0*+(?:\.0\d*+)?%?\)|#[0-9a-f]{6}0[0-9a-f]|#[0-9a-f]{3}0"
)
_FLAT = re.compile(r"scale[xy3d]*+\((?:[^(),]*+,){0,2}0(?:\.0\d*+)?[,)]|matrix\(0")
_SEE_THROUGH = re.compile(r"opacity\(([^()]*+)\)")
MAX_STYLE = 4096
"""Longest inline style that is examined, in characters."""


def hides(style: str) -> bool:
    """Return whether an inline style makes an element invisible. Such elements may hide instructions for models.

    Every declaration is checked, because the one that applies depends on which of the others a browser can parse. A
    style longer than :data:`MAX_STYLE` counts as hiding. Not detected: style sheets, classes, variables, and elements
    covered by others.
    """
    if len(style) > MAX_STYLE:
        return True
    plain = _ESCAPE.sub(lambda m: chr(min(int(m[1], 16), 0x10FFFF)), _COMMENT.sub("", style.lower()))
    declarations = []
    for declaration in plain.split(";"):
        name, _, value = declaration.partition(":")
        declarations.append((name.strip(), value.partition("!")[0].split()))
    return any(_hides_alone(name, words) for name, words in declarations) or _hide_together(dict(declarations))


def _hides_alone(name: str, words: list[str]) -> bool:
    value = "".join(words)
    match name:
        case "display":
            return value == "none"
        case "visibility" | "content-visibility":
            return value in ("hidden", "collapse")
        case "font-size":
            return _unreadable(value)
        case "font":
            # The size comes before the slash, or before the font names.
            return any(map(_unreadable, " ".join(words).partition("/")[0].split()))
        case "opacity":
            return _is(_FAINT, value)
        case "filter":
            return any(_is(_FAINT, match[1]) for match in _SEE_THROUGH.finditer(value))
        case "color" | "-webkit-text-fill-color":
            return _is(_NO_COLOUR, value)
        case "clip" | "clip-path":
            return _CLIPPED.match(value) is not None
        case "transform":
            return _FLAT.search(value) is not None
    return name in _AWAY and _is(_AWAY[name], value)


def _hide_together(declarations: dict[str, list[str]]) -> bool:
    values = {name: "".join(words) for name, words in declarations.items()}
    background = values.get("background-color") or values.get("background")
    if background and values.get("color") == background:
        return True
    if "hidden" not in (values.get("overflow"), values.get("overflow-x"), values.get("overflow-y")):
        return False
    # A box without height but with padding shows its content, usually a video.
    padded = any(
        not _unreadable(word) for name in declarations if name.startswith("padding") for word in declarations[name]
    )
    sizes = ("width", "max-width") if padded else ("width", "max-width", "height", "max-height")
    return any(_is(_NOTHING, values.get(name)) for name in sizes)


def _unreadable(size: str) -> bool:
    return _is(_NOTHING, size) or _is(_TINY, size)


def _is(pattern: re.Pattern[str], value: str | None) -> bool:
    return bool(value) and pattern.fullmatch(str(value)) is not None
