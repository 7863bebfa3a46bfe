"""Messages between this process and the reading process.

On the pipe, a message is its length (four bytes, big-endian) and its struct in MessagePack.
"""

from __future__ import annotations

import struct
from datetime import datetime

import msgspec

LENGTH = struct.Struct(">I")
MAX_ANSWER_BYTES = 256 * 1024
"""Larger than the longest response: 64 KiB of text and a title of 500 characters."""


class ReadPage(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a page. ``plain``: read by the plain reader, so menus and footers may be part of the text."""

    title: str
    text: str
    published_at: datetime | None
    plain: bool = False
    truncated: bool = False


class PageRequest(msgspec.Struct, frozen=True, kw_only=True, tag="page"):
    """A page as received. ``readable``: return its text, too; otherwise only whether it is a captcha."""

    body: bytes
    content_type: str
    status: int
    url: str
    readable: bool
    plain: bool


class RulesRequest(msgspec.Struct, frozen=True, kw_only=True, tag="rules"):
    """A site's robots.txt and a URL of the site."""

    rules: bytes
    url: str


class PageAnswer(msgspec.Struct, frozen=True, kw_only=True, tag="page"):
    """The content of a page. ``page`` is None if it has no text, or none was requested."""

    asks_if_human: bool
    page: ReadPage | None = None


class RulesAnswer(msgspec.Struct, frozen=True, kw_only=True, tag="rules"):
    """The decision whether our robot may open the URL."""

    allowed: bool


class Broken(msgspec.Struct, frozen=True, kw_only=True, tag="broken"):
    """The input broke the parser. ``error`` is the exception's name, never its text, which the page controls."""

    error: str


Asked = PageRequest | RulesRequest
ReaderAnswer = PageAnswer | RulesAnswer | Broken
