"""The way to the terminal. Everything that a process prints passes here, whoever prints it.

Why at the stream and not where texts are printed: there are hundreds of such places, in our code and in libraries (help and
errors of the command line, tracebacks, warnings), and one that is forgotten is a hole. So :func:`guard_output` puts a stream
in place of standard output and standard error that lets no acting character through; nobody has to remember anything. Only
who colours a terminal writes escapes of its own, and there are two of those: rich (:mod:`newsproof.app.console`) and the logs
(:mod:`newsproof.app.logging_setup`). They clean what they are given and then write to the stream behind, :func:`behind`. A test of the
house finds whoever else would go around.
"""

from __future__ import annotations

import io
import sys
from typing import BinaryIO, TextIO

from schemas.printable import printable


class PrintableStream(io.TextIOBase):
    """A text stream that shows acting characters instead of passing them on. It has no ``buffer`` to go around it by."""

    def __init__(self, inner: TextIO) -> None:
        self.inner = inner

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """That of the stream behind."""
        return self.inner.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        """That of the stream behind."""
        return self.inner.errors

    def write(self, text: str) -> int:
        """Write the text as it may be shown."""
        self.inner.write(printable(text))
        return len(text)

    def flush(self) -> None:
        """Flush the stream behind."""
        self.inner.flush()

    def isatty(self) -> bool:
        """Whether the stream behind is a terminal."""
        return self.inner.isatty()

    def fileno(self) -> int:
        """Return the number of the file behind."""
        return self.inner.fileno()

    def writable(self) -> bool:
        """It is."""
        return True

    @property
    def closed(self) -> bool:
        """Whether the stream behind is closed."""
        return self.inner.closed

    def close(self) -> None:
        """Close the stream behind."""
        self.inner.close()

    def __del__(self) -> None:
        """Leave the stream behind open: it belongs to the process."""


def guard_output() -> None:
    """Let nothing that acts reach standard output and standard error of this process. Every ``main`` begins with it."""
    if not isinstance(sys.stdout, PrintableStream):
        sys.stdout = PrintableStream(sys.stdout)
    if not isinstance(sys.stderr, PrintableStream):
        sys.stderr = PrintableStream(sys.stderr)


def behind(stream: TextIO) -> TextIO:
    """Return the stream that really writes: for a writer that cleans texts itself and adds escapes of its own."""
    return stream.inner if isinstance(stream, PrintableStream) else stream


def bytes_of_output() -> BinaryIO | None:
    """Return the bytes of standard output where it is a file or a pipe; None where it is a terminal, which gets no raw bytes."""
    return None if sys.stdout.isatty() else behind(sys.stdout).buffer
