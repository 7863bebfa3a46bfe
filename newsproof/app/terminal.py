"""The terminal guard: everything that a process prints passes through it.

The guard is at the stream and not where texts are printed: there are hundreds of such places, in our code and in
libraries (help and errors of the command line, tracebacks, warnings), and one forgotten place is a hole.
:func:`guard_output` replaces standard output and standard error with a stream that escapes control characters, so no
caller has to remember anything. Only two writers need escapes of their own to colour a terminal: rich
(:mod:`newsproof.app.console`) and the logs (:mod:`newsproof.app.logging_setup`). They clean their texts and then write
to the stream behind the guard (:func:`behind`). A test finds any other code that bypasses it.
"""

from __future__ import annotations

import io
import sys
from typing import BinaryIO, TextIO

from schemas.printable import printable


class PrintableStream(io.TextIOBase):
    """A text stream that shows control characters instead of passing them on.

    It has no ``buffer`` that could bypass it.
    """

    def __init__(self, inner: TextIO) -> None:
        self.inner = inner

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self.inner.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        return self.inner.errors

    def write(self, text: str) -> int:
        """Write the text with control characters made visible."""
        self.inner.write(printable(text))
        return len(text)

    def flush(self) -> None:
        self.inner.flush()

    def isatty(self) -> bool:
        return self.inner.isatty()

    def fileno(self) -> int:
        return self.inner.fileno()

    def writable(self) -> bool:
        return True

    @property
    def closed(self) -> bool:
        return self.inner.closed

    def close(self) -> None:
        self.inner.close()

    def __del__(self) -> None:
        """Leave the stream behind open: it belongs to the process."""


def guard_output() -> None:
    """Guard standard output and standard error of this process. Every ``main`` calls it first."""
    if not isinstance(sys.stdout, PrintableStream):
        sys.stdout = PrintableStream(sys.stdout)
    if not isinstance(sys.stderr, PrintableStream):
        sys.stderr = PrintableStream(sys.stderr)


def behind(stream: TextIO) -> TextIO:
    """Return the underlying stream, for a writer that cleans texts itself and adds escapes of its own."""
    return stream.inner if isinstance(stream, PrintableStream) else stream


def bytes_of_output() -> BinaryIO | None:
    """Return standard output's byte stream if it is a file or a pipe; None for a terminal, which gets no raw bytes."""
    return None if sys.stdout.isatty() else behind(sys.stdout).buffer
