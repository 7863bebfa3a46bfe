"""rich's console, protected so that text cannot add styles: only styles in our own code become escapes."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console as RichConsole
from rich.console import ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from newsproof.app.terminal import behind
from schemas.printable import printable


class Console(RichConsole):
    """Writes to standard output, or to standard error. ``width`` None: the terminal's.

    rich removes a few control characters from texts and leaves ESC, C1 and bidi. Everything printed becomes segments in
    ``render``, so text is cleaned there. rich's markup is off (``[link=…]`` would become an OSC 8).
    """

    def __init__(self, *, error: bool = False, width: int | None = None) -> None:
        # The stream behind the guard, because the escapes of styles must pass.
        file = behind(sys.stderr if error else sys.stdout)
        super().__init__(file=file, width=width, highlight=False, soft_wrap=False, markup=False, emoji=False)

    def render_str(self, text: str, **how: Any) -> Text:
        """Return a string as rich's text, cleaned before it is measured.

        A control character has no width, but its escape has.
        """
        return super().render_str(printable(text), **how)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments to print, cleaned."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)
