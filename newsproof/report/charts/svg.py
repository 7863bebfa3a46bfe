"""SVG primitives of the charts: elements with escaped text, scales, colours."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from xml.sax.saxutils import escape, quoteattr

import msgspec

from schemas.printable import counted

COLOURS = (
    ("#1f6fb4", "#6cb2ee"),
    ("#b8500f", "#f09a5f"),
    ("#00737f", "#5fcbd6"),
    ("#7b5b3a", "#c8a27a"),
    ("#9a7400", "#e3bf4f"),
    ("#7d2a92", "#d9a0ea"),
    ("#5a63a8", "#a5adf0"),
    ("#666666", "#aaaaaa"),
)
"""Series colours on white and on black; each has a contrast of at least 3:1 (WCAG 2.2, 1.4.11). Last: the rest.

None is red or green: on the page those mean the market alone."""
STYLE = (
    ":root{color-scheme:light dark;--ink:#1c1c1c;--faint:#6b6b6b;--line:#d5d5d5;--page:#ffffff;"
    + "".join(f"--c{n}:{light};" for n, (light, _) in enumerate(COLOURS))
    + "}@media (prefers-color-scheme:dark){:root{--ink:#ececec;--faint:#a5a5a5;--line:#3a3a3a;--page:#141414;"
    + "".join(f"--c{n}:{dark};" for n, (_, dark) in enumerate(COLOURS))
    + "}}"
)
"""CSS variables that the charts use, for the style sheet of the page around them."""
Words = Callable[[str], str]


def in_english(word: str) -> str:
    """Return a name of the code, such as ``step_failed``, or a phrase of a chart in English."""
    return word.replace("_", " ")


class Canvas(msgspec.Struct, frozen=True):
    """The reader's screen and language. ``width``: of the view box, which a page scales; letters are 11 to 12 units high.

    ``say``: function that returns a term or a phrase of a chart in the reader's language.
    """

    width: int = 720
    say: Words = in_english

    @property
    def narrow(self) -> bool:
        return self.width < 600

    def counted(self, number: int, what: str) -> str:
        """Return ``2 cases``; in another language, the number before the term."""
        return counted(number, what) if self.say is in_english else f"{number:,} {self.say(what)}"


WIDE, NARROW = Canvas(), Canvas(360)
INK, FAINT, LINE = "var(--ink,#1c1c1c)", "var(--faint,#6b6b6b)", "var(--line,#d5d5d5)"


def colour(index: int) -> str:
    """Return the fill of series ``index``. Series beyond the last colour share it."""
    n = min(index, len(COLOURS) - 1)
    return f"var(--c{n},{COLOURS[n][0]})"


def number(value: float) -> str:
    """Format a coordinate with up to two decimals; a non-finite value becomes 0."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if math.isfinite(value) else "0"


def element(name: str, *inside: str, **attributes: str | float) -> str:
    """Return an element. ``inside`` is markup; attributes are escaped, and ``text_anchor`` becomes ``text-anchor``."""
    written = "".join(
        f" {key.rstrip('_').replace('_', '-')}={quoteattr(_shown(value) if isinstance(value, str) else number(value))}"
        for key, value in attributes.items()
    )
    return f"<{name}{written}>{''.join(inside)}</{name}>"


def text(words: str, x: float, y: float, *, anchor: str = "start", fill: str = INK, size: float = 12) -> str:
    """Return a line of text with its baseline at (x, y). The words are escaped."""
    return element("text", clean(words), x=x, y=y, text_anchor=anchor, fill=fill, font_size=size)


def clean(words: str) -> str:
    """Escape text for markup. Control characters, which SVG may not hold, become spaces."""
    return escape(_shown(words))


def _shown(words: str) -> str:
    return "".join(c if c.isprintable() else " " for c in words)


def tip(words: str) -> str:
    """Return a tooltip for the surrounding element."""
    return element("title", clean(words))


def drawing(title: str, description: str, height: float, *marks: str, on: Canvas = WIDE) -> str:
    """Return the whole SVG element, with a title and a description for screen readers."""
    return element(
        "svg",
        element("title", clean(title)),
        element("desc", clean(description)),
        *marks,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {on.width} {number(height)}",
        role="img",
        aria_label=f"{title}. {description}",
        font_family="system-ui, sans-serif",
    )


def empty(title: str, why: str, on: Canvas = WIDE) -> str:
    """Return a drawing with the reason why there is nothing to draw."""
    return drawing(title, why, 60, text(on.say(why), 8, 34, fill=FAINT), on=on)


def ticks(top: float, count: int = 4) -> list[float]:
    """Return round values from 0 to at least ``top`` (> 0): steps of 1, 2 or 5 times a power of ten."""
    if not (math.isfinite(top) and top > 0):
        return [0.0, 1.0]
    raw = top / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next((m * power for m in (1, 2, 5) if m * power >= raw * 0.999), 10 * power)
    return [step * n for n in range(math.ceil(top / step * 0.999) + 1)]


def shorten(words: str, length: int) -> str:
    """Cut the text to ``length`` characters, with an ellipsis."""
    return words if len(words) <= length else words[: length - 1] + "…"


def legend(series: Sequence[tuple[str, int]], y: float, *, on: Canvas) -> tuple[str, float]:
    """Return the names of series beside their colours (index), in rows from ``y`` on, and the height that they take."""
    across = 2 if on.narrow else 4
    left = 16 if on.narrow else 60
    wide = (on.width - left) // across
    marks = []
    for n, (name, index) in enumerate(series):
        x, row = left + n % across * wide, y + n // across * 18
        marks.append(element("rect", x=x, y=row - 9, width=10, height=10, rx=2, fill=colour(index)))
        marks.append(text(shorten(on.say(name), 22), x + 15, row, size=11))
    return "".join(marks), 18 * -(-len(series) // across)
