"""Pages and rules for robots that are made to take the time or the memory of whoever reads them. Seeded, never stored."""

from __future__ import annotations

import asyncio
import gzip
import random
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tests.infra.fakes.server import Say, _head

FULL = 4 * 1024 * 1024 - 1024
"""As long as a page may be (MAX_PAGE_BYTES)."""
LONG = 400 * 1024
"""As long as most of them are, so that they are read in a short time where that is linear."""
SENTENCE = b"Circle said that the reserves of USDC are whole. "
NO_CHARACTER_SETS = (
    "punycode", "idna", "unicode_escape", "raw_unicode_escape", "zlib_codec", "bz2_codec", "rot13", "utf-7", "hex",
    "base64", "uu", "quopri", "undefined", "mbcs", "oem", "utf_32", "hz-gb-2312", "iso-2022-kr", "x" * 5000,
)  # fmt: skip

PUNYCODE = b"b" * 300_000
PUNYCODE_PAGE = gzip.compress(PUNYCODE, mtime=0)
"""326 bytes: read as punycode they take more than ten seconds."""


@dataclass(frozen=True)
class Pieces:
    """A body of pieces of one byte each."""

    count: int

    async def respond(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = _head(200, {"content-type": "text/html", "transfer-encoding": "chunked"})
        writer.write(head + b"1\r\na\r\n" * self.count + b"0\r\n\r\n")
        await writer.drain()


def html(body: bytes, kind: str = "text/html", **headers: str) -> Say:
    return Say(body, headers={"content-type": kind, **{n.replace("_", "-"): v for n, v in headers.items()}})


def filled(part: bytes, before: bytes = b"", after: bytes = b"", size: int = LONG) -> Say:
    """A page that repeats a part as often as it fits."""
    return html(before + part * ((size - len(before) - len(after)) // len(part)) + after)


def noise(size: int = LONG) -> bytes:
    return random.Random(20).randbytes(size)


def _packed(packed: bytes, encoding: str) -> Say:
    return html(packed, content_encoding=encoding)


def _laughs() -> bytes:
    kinds = b"".join(b'<!ENTITY l%d "%b">' % (n + 1, b"&l%d;" % n * 10) for n in range(12))
    return b'<?xml version="1.0"?><!DOCTYPE html [<!ENTITY l0 "lol">' + kinds + b"]><html><p>&l12;</p></html>"


PAGES: Mapping[str, Callable[[], Say | Pieces]] = {
    **{f"header {c:.20}": lambda c=c: html(b"-" + b"a" * 20_000, f"text/html; charset={c}") for c in NO_CHARACTER_SETS},
    **{f"meta {c:.20}": lambda c=c: html(b"<meta charset=%b>-" % c.encode() + b"a" * 20_000) for c in NO_CHARACTER_SETS[:5]},
    "326 bytes of punycode": lambda: html(PUNYCODE_PAGE, "text/html; charset=punycode", content_encoding="gzip"),
    "gzip bomb": lambda: _packed(gzip.compress(b" " * 200_000_000, 1), "gzip"),
    "deflate bomb": lambda: _packed(zlib.compress(b" " * 200_000_000, 1), "deflate"),
    "gzip, just within": lambda: _packed(gzip.compress(b"\xff" * FULL), "gzip"),
    "brotli": lambda: _packed(b"\x0b\x02\x80hello\x03", "br"),
    "404 of gzip": lambda: Say(gzip.compress(b"\xff" * FULL), status=404, headers={"content-encoding": "gzip"}),
    "deep": lambda: html(b"<div>" * 100_000 + SENTENCE),
    "deep and full": lambda: filled(b"<div>", size=FULL),
    "deep tables": lambda: filled(b"<table><tr><td>"),
    "unclosed": lambda: filled(b"<p><b><i><a>"),
    "attributes": lambda: filled(b" a=b", b"<p", b">" + SENTENCE),
    "different attributes": lambda: html(b"<p " + b" ".join(b"a%d=1" % n for n in range(90_000)) + b">" + SENTENCE),
    "one attribute": lambda: filled(b"x", b'<p title="', b'">' + SENTENCE),
    "style attribute": lambda: filled(b" ;", b'<p style="', b'">' + SENTENCE),
    "entities": lambda: filled(b"&amp;&#x41;&nosuch;"),
    "less than": lambda: filled(b"<"),
    "comments": lambda: filled(b"<!---->"),
    "open comments": lambda: filled(b"<!--"),
    "cdata": lambda: filled(b"<![CDATA["),
    "declarations": lambda: filled(b"<!DOCTYPE html>"),
    "instructions": lambda: filled(b"<?xml "),
    "one line": lambda: filled(SENTENCE),
    "one word": lambda: filled(b"a"),
    "lines": lambda: filled(b"\n"),
    "lines and blanks": lambda: filled(b"\n \t"),
    "combining marks": lambda: filled("\u0301\u0327".encode(), b"<p>e"),
    "unseen letters": lambda: filled("\u200b".encode()),
    "captcha": lambda: filled(b"<p>Just a moment... verify you are human</p>", size=FULL),
    "captcha and elements": lambda: filled(b"<i>", b"<div class=g-recaptcha></div>"),
    "captcha and unseen": lambda: filled(b"<b hidden>x</b>", b"<div class=g-recaptcha></div>"),
    "captcha, nearly": lambda: filled(b"verify that you are a "),
    "dates": lambda: filled(b"<meta name=pubdate content=soon>"),
    "linked dates": lambda: filled(b"[", b'<script type="application/ld+json">', b"</script>"),
    "linked graph": lambda: filled(b'{"@graph":[', b'<script type="application/ld+json">', b"</script>" + SENTENCE),
    "titles": lambda: filled(b"<h1><title>x</title></h1>"),
    "links": lambda: filled(b"<a href=//x.example>x</a>"),
    "paragraphs": lambda: filled(b"<p>" + SENTENCE + b"</p>"),
    "sitemap": lambda: filled(b"<url><loc>https://e.example/</loc></url>", b"<?xml version='1.0'?><urlset>"),
    "charsets": lambda: filled(b"<meta charset=utf-16>"),
    "charsets without an end": lambda: filled(b"<meta charset  "),
    "NULs": lambda: filled(b"\0"),
    "NULs and tags": lambda: filled(b"<\0p\0>\0"),
    "surrogates in UTF-16": lambda: html(b"\xff\xfe" + b"\x00\xd8" * (LONG // 2)),
    "surrogates in UTF-8": lambda: filled(b"\xed\xa0\x80"),
    "surrogates in entities": lambda: filled(b"&#xD800;"),
    "noise": lambda: html(noise(FULL)),
    "noise in Shift JIS": lambda: html(noise(), "text/html; charset=shift_jis"),
    "noise in plain text": lambda: html(noise(), "text/plain"),
    "plain text": lambda: html(b"a\xcc\x81" * (LONG // 3), "text/plain; charset=utf-8"),
    "bytes without characters": lambda: html(b"\x81" * LONG, "text/html; charset=windows-1257"),
    "billion laughs": lambda: html(_laughs(), "application/xhtml+xml"),
    "outside entity": lambda: html(b'<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><p>&e;</p>'),
    "content type": lambda: html(SENTENCE, "text/html;" + "charset = " * 6000),
    "cookies": lambda: html(SENTENCE, set_cookie="a;" * 30_000),
    "moved far": lambda: Say(b"", status=302, headers={"location": "/../" * 15_000}),
    "pieces": lambda: Pieces(200_000),
}  # fmt: skip

_LONG = b"/*" + b"a*" * 1000
RULES: Mapping[str, Callable[[], bytes]] = {
    "wildcards": lambda: b"User-agent: *\n" + b"Disallow: %b\n" % _LONG * 240,
    "eight wildcards": lambda: b"User-agent: *\n" + b"Disallow: /*a*a*a*a*a*a*a*b\n" * 1900,
    "rules": lambda: b"User-agent: *\n" + b"".join(b"Disallow: /%d*x\n" % n for n in range(25_000)),
    "robots": lambda: b"".join(b"User-agent: r%d\n" % n for n in range(15_000)) + b"Disallow: /\n" * 15_000,
    "misspelt": lambda: b"User agent *\n" + b"disalow /x*y*z\n" * 30_000,
    "one line": lambda: b"User-agent: *\nDisallow: /" + b"%41" * 160_000,
    "blank lines": lambda: b"\n" * 500_000,
    "colons": lambda: b":" * 500_000,
    "words": lambda: b"a " * 250_000,
    "sitemaps": lambda: b"Sitemap: https://e.example/\n" * 18_000,
    "noise": lambda: noise(500_000),
}
"""Files of 500 KB."""
