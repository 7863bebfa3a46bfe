"""What is asked about bytes from outside, and what is told: the messages to the process that reads them, and back.

On the pipe a message is its length (four bytes, big-endian) and MessagePack of its struct.
"""

from __future__ import annotations

import struct
from datetime import datetime

import msgspec

LENGTH = struct.Struct(">I")
MAX_ANSWER_BYTES = 256 * 1024
"""More than the longest answer: 64 KiB of text and a title of 500 characters."""


class ReadPage(msgspec.Struct, frozen=True, kw_only=True):
    """What was read. ``plain``: by the plain reader, so menus and footers may be among the text."""

    title: str
    text: str
    published_at: datetime | None
    plain: bool = False
    truncated: bool = False


class PageAsked(msgspec.Struct, frozen=True, kw_only=True, tag="page"):
    """A page as it came. ``readable``: its text is wanted; else only whether it asks if we are human."""

    body: bytes
    content_type: str
    status: int
    url: str
    readable: bool
    plain: bool


class RulesAsked(msgspec.Struct, frozen=True, kw_only=True, tag="rules"):
    """The rules of a site for robots, and an address there."""

    rules: bytes
    url: str


class PageTold(msgspec.Struct, frozen=True, kw_only=True, tag="page"):
    """``page`` is None when there is nothing to read, or nothing was wanted."""

    asks_if_human: bool
    page: ReadPage | None = None


class RulesTold(msgspec.Struct, frozen=True, kw_only=True, tag="rules"):
    """Whether a robot of ours may open the address."""

    allowed: bool


class Broken(msgspec.Struct, frozen=True, kw_only=True, tag="broken"):
    """The bytes broke what read them: the name of the exception, never its text, which is the page's."""

    error: str


Asked = PageAsked | RulesAsked
Told = PageTold | RulesTold | Broken
