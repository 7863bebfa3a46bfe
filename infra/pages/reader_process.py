"""The process that parses untrusted input: characters, markup, captchas and robots.txt.

    python -P -m infra.pages.reader_process LIMIT_S MEMORY_BYTES

Malicious input can only harm this process, which holds no key. If the kernel has Landlock, the process can write no
file, read only the program's files, and open no TCP connection. It first sends an empty message to signal readiness.
Then it handles one request at a time, from standard input to standard output (:mod:`infra.pages.reader_messages`), and
exits when its input ends. :mod:`infra.pages.reader_client` starts it, and kills it if a response takes too long.
"""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
from msgspec.structs import replace

from infra.landlock import confine, program_files
from infra.pages.main_text import asks_if_human, read_page, read_text
from infra.pages.markup import decoded
from infra.pages.reader_messages import (
    LENGTH,
    Asked,
    Broken,
    PageAnswer,
    PageRequest,
    ReaderAnswer,
    ReadPage,
    RulesAnswer,
)
from infra.pages.rules import allowed_by
from infra.texts import cut_utf8
from schemas.topics import MAX_BODY_BYTES


def answer(asked: Asked) -> ReaderAnswer:
    """Parse the bytes of one request. Bounds neither time nor memory."""
    if not isinstance(asked, PageRequest):
        return RulesAnswer(allowed=allowed_by(asked.rules, asked.url))
    text = decoded(asked.body, asked.content_type)
    if asks_if_human(text, asked.status):
        return PageAnswer(asks_if_human=True)
    return PageAnswer(asks_if_human=False, page=_read(text, asked) if asked.readable else None)


def _read(text: str, asked: PageRequest) -> ReadPage | None:
    is_plain_text = asked.content_type.strip().lower().startswith("text/plain")
    page = read_text(text) if is_plain_text else read_page(text, asked.url, plain=asked.plain)
    if page is None:
        return None
    kept = cut_utf8(page.text, MAX_BODY_BYTES)
    return replace(page, text=kept, truncated=len(kept) < len(page.text))


def serve(answer: Callable[[Any], object], asked: Any, ready: Callable[[], None]) -> None:
    """Handle requests of type ``asked`` until standard input ends. ``ready`` imports what the first request needs."""
    limit_s, memory_bytes = float(sys.argv[1]), int(sys.argv[2])
    questions, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a library's output must not be taken for a response
    logging.disable(logging.CRITICAL)  # libraries' messages about a page do not belong in our log
    confine(writable=[Path(os.devnull)], readable=program_files())
    ready()
    with contextlib.suppress(OSError, ValueError):  # macOS has no such limit
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    _send(answers, b"")
    decoder = msgspec.msgpack.Decoder(asked)
    while head := questions.read(LENGTH.size):
        question = decoder.decode(questions.read(*LENGTH.unpack(head)))
        # Should the parent have died that kills it, the kernel ends the process after this time, even inside C code.
        signal.setitimer(signal.ITIMER_REAL, limit_s)
        try:
            answered = answer(question)
        except MemoryError:
            return
        except Exception as exc:
            answered = Broken(error=type(exc).__name__)
        signal.setitimer(signal.ITIMER_REAL, 0)
        _send(answers, msgspec.msgpack.encode(answered))


def _import_all() -> None:
    """Import the modules that would otherwise use up the time limit of the first page."""
    read_page("<p>Ready.</p>" * 10, "https://example.com/")
    allowed_by(b"User-agent: *\nDisallow: /x", "https://example.com/")


def _send(answers: BinaryIO, message: bytes) -> None:
    answers.write(LENGTH.pack(len(message)) + message)
    answers.flush()


def main() -> None:
    serve(answer, Asked, _import_all)


if __name__ == "__main__":
    main()
