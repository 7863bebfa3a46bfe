"""The terminal: the guard that all printed text passes through, and the command's name in hints.

The guard is at the stream and not at the places that print. There are hundreds of those, in our code and in
libraries (help and errors of the command line, tracebacks, warnings), and one forgotten place would be a hole.
:func:`guard_output` replaces standard output and standard error with a stream that escapes control characters, so no
caller must remember anything. Only two writers need their own escapes to colour a terminal: rich
(:mod:`newsproof.app.console`) and the logs (:mod:`newsproof.app.logging_setup`). They clean their texts and then write
to the stream behind the guard (:func:`behind`). A test finds any other code that bypasses it.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import sys
from pathlib import Path
from typing import BinaryIO, TextIO

from schemas.printable import printable


class PrintableStream(io.TextIOBase):
    """A text stream that shows control characters instead of passing them through.

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
        """Leave the underlying stream open, because it belongs to the process."""


def guard_output() -> None:
    """Guard standard output and standard error of this process. Every ``main`` calls it first."""
    if not isinstance(sys.stdout, PrintableStream):
        sys.stdout = PrintableStream(sys.stdout)
    if not isinstance(sys.stderr, PrintableStream):
        sys.stderr = PrintableStream(sys.stderr)


def behind(stream: TextIO) -> TextIO:
    """Return the underlying stream, for a writer that cleans texts itself and adds its own escapes."""
    return stream.inner if isinstance(stream, PrintableStream) else stream


def bytes_of_output() -> BinaryIO | None:
    """Return standard output's byte stream if it is a file or a pipe; None for a terminal, which gets no raw bytes."""
    return None if sys.stdout.isatty() else behind(sys.stdout).buffer


# Texts say ``newsproof COMMAND``. Code that prints them converts the name here to the one that the user typed, with the
# data directory of this call.

_COMMAND = re.compile(r"(?<![\w./-])newsproof (?=[a-z])")


class _GlobalOptions:
    data_dir: Path | None = None
    env_file: Path | None = None


GIVEN = _GlobalOptions()
"""The command-line options that a hint repeats. Set once they are parsed."""


def program_name() -> str:
    """Return ``newsproof`` for the installed command, or the checkout's ``run`` if it (or ``-m newsproof``) was used."""
    started = Path(sys.argv[0]).absolute()
    script = started.parents[1] / "run" if started.name == "__main__.py" else None
    if script is None or not script.exists():
        return "newsproof"
    return "./run" if Path.cwd() == script.parent else str(script)


def command_name(data_dir: Path | None = None) -> str:
    """Return what the user typed for ``newsproof``, with the options of this call.

    They are the data directory and the settings file of this call, so that the suggested command finds the same
    log. ``data_dir``: another directory to name.
    """
    words = [program_name()]
    directory = data_dir or GIVEN.data_dir or os.environ.get("NEWSPROOF_DATA_DIR")
    if directory:
        words += ["--data-dir", str(directory)]
    if GIVEN.env_file is not None:
        words += ["--env-file", str(GIVEN.env_file)]
    return shlex.join(words)


def as_started(text: str, name: str | None = None) -> str:
    """Return one of our texts with its commands as the user types them. Not for texts of others.

    ``name``: in place of :func:`command_name`, for a text that no call belongs to.
    """
    return _COMMAND.sub(lambda _found: f"{name or command_name()} ", text)
