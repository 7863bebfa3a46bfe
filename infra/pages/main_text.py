"""Extraction of a page's main text, title and date, and detection of captcha pages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from infra.pages.markup import hides, visible
from infra.pages.reader_messages import ReadPage
from infra.texts import parse_published, storable_text

MIN_TEXT_CHARS = 80
"""A shorter main text counts as a failed extraction, and the plain reader takes over."""
MAX_ELEMENTS = 6_000
MAX_MAIN_CHARS = 200_000
"""Larger pages go to the plain reader, because finding the main text of a hostile page takes quadratic time."""
_CAPTCHA_PAGE_CHARS = 1500
"""A page that mentions a captcha but has more text than this is an article about captchas."""
_MAX_TITLE_CHARS = 500
_CAPTCHA = re.compile(
    r"cf-chl|challenge-platform|cf_captcha|g-recaptcha|h-captcha|hcaptcha\.com|geetest|px-captcha|captcha-delivery|"
    r"cf-turnstile|verify (?:that )?you are (?:a )?human|are you a robot|unusual traffic|just a moment\.\.\.|"
    r"attention required|人机验证|安全验证|滑动验证|请完成验证|访问过于频繁|输入验证码",
    re.IGNORECASE,
)
_UNSEEN_TAGS = frozenset({"script", "style", "noscript", "template", "svg", "iframe", "object"})
"""Tags that a browser does not show, which may hide instructions for models."""
_BLOCKS = frozenset(
    [
        "p", "div", "li", "br", "tr", "h1", "h2", "h3", "h4", "h5", "h6", "section", "article", "td", "pre", "title",
        "ul", "ol", "table",
    ]
)  # fmt: skip
_DATE_META = frozenset(
    [
        "article:published_time", "og:published_time", "datepublished", "pubdate", "publishdate", "publish_date",
        "publish-date", "parsely-pub-date", "sailthru.date", "dc.date", "dc.date.issued", "dcterms.created",
        "weibo:article:create_at", "apub:time", "pubtime",
    ]
)  # fmt: skip


def read_page(html: str, url: str, *, plain: bool = False) -> ReadPage | None:
    """Return the content of a page, None if it has no text. ``plain`` skips the search for the main text.

    Takes about a tenth of a second of CPU time per megabyte, and far more on hostile pages: call it in
    :mod:`infra.pages.reader_process`.
    """
    tree = _tree(html)
    if tree is None:
        return None
    title, published = _title(tree), _published(tree)
    _empty_unseen(tree)
    everything = _all_text(tree)
    large = len(everything) > MAX_MAIN_CHARS or int(tree.xpath("count(//*)")) > MAX_ELEMENTS
    main = "" if plain or large else _main_text(tree, url)
    if len(main) >= MIN_TEXT_CHARS:
        return ReadPage(title=title, text=main, published_at=published)
    return ReadPage(title=title, text=everything, published_at=published, plain=True) if everything else None


def read_text(text: str) -> ReadPage | None:
    """Return the content of a plain text file; its first line becomes the title."""
    shown = visible(storable_text(text))
    return ReadPage(title=shown.split("\n", 1)[0][:120], text=shown, published_at=None, plain=True) if shown else None


def asks_if_human(html: str, status: int) -> bool:
    """Return whether the page is a captcha or a challenge instead of the requested content."""
    if not _CAPTCHA.search(html[:200_000]):
        return False
    if status != 200:
        return True
    tree = _tree(html)
    if tree is not None:
        _empty_unseen(tree)
    return tree is None or len(_all_text(tree)) < _CAPTCHA_PAGE_CHARS


def _tree(html: str) -> Any:
    from lxml import etree  # type: ignore[import-untyped]
    from lxml import html as parser

    # The text is already decoded, so the page's declaration of its encoding no longer applies.
    text = re.sub(r"^\s*<\?xml[^>]*\?>", "", storable_text(html).replace("\x00", ""), count=1)
    try:
        return parser.document_fromstring(text, parser=parser.HTMLParser(no_network=True, huge_tree=False))
    except (etree.LxmlError, ValueError):
        return None  # empty, or nothing but comments


def _empty_unseen(tree: Any) -> None:
    # Emptied, not removed: each removal moves the following text, which takes quadratic time.
    for element in [unseen for unseen in tree.iter() if _unseen(unseen)]:
        element.clear(keep_tail=True)


def _unseen(element: Any) -> bool:
    if not isinstance(element.tag, str):
        return False  # a comment or processing instruction, whose tag is a function
    if element.tag in _UNSEEN_TAGS:
        return True
    style = element.get("style")
    return element.get("hidden") is not None or (style is not None and hides(style))


def _main_text(tree: Any, url: str) -> str:
    import trafilatura

    try:
        document = trafilatura.bare_extraction(
            tree, url=url, with_metadata=False, include_comments=False, include_tables=True
        )
    except Exception:
        return ""
    return visible(storable_text(getattr(document, "text", None) or "")) if document is not None else ""


def _all_text(tree: Any) -> str:
    parts: list[str] = []
    for moment, element in _walk(tree):
        if element.tag in _BLOCKS:
            parts.append("\n")
        if moment == "start":
            parts.append(element.text or "" if isinstance(element.tag, str) and element.tag != "title" else "")
        else:
            parts.append(element.tail or "")
    return visible(storable_text("".join(parts)))


def _walk(tree: Any) -> Iterator[tuple[str, Any]]:
    """Yield ("start" or "end", element) in text order."""
    from lxml import etree

    yield from etree.iterwalk(tree, events=("start", "end"))


def _title(tree: Any) -> str:
    for path in ("//meta[@property='og:title']/@content", "//title/text()", "//h1//text()"):
        for node in tree.xpath(path):
            if title := visible(str(node)):
                return " ".join(storable_text(title).split())[:_MAX_TITLE_CHARS]
    return ""


def _published(tree: Any) -> datetime | None:
    """Return the publication date that the page declares, never a date that merely occurs in its text."""
    for written in _dates(tree):
        if (when := parse_published(written)) is not None:
            return when
    return None


def _dates(tree: Any) -> Iterator[str]:
    for meta in tree.xpath("//meta[@content]"):
        names = {(meta.get(key) or "").strip().lower() for key in ("property", "name", "itemprop")}
        if names & _DATE_META:
            yield meta.get("content")
    for script in tree.xpath("//script[@type='application/ld+json']/text()"):
        yield from _linked_dates(str(script))
    yield from tree.xpath("//time[@pubdate or @itemprop='datePublished']/@datetime")
    yield from tree.xpath("//*[@itemprop='datePublished']/@content")


def _linked_dates(script: str) -> Iterator[str]:
    try:
        waiting: list[Any] = [json.loads(script)]
    except (ValueError, RecursionError):
        return
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, list):
            waiting += node[:100]
        elif isinstance(node, dict):
            if isinstance(date := node.get("datePublished"), str):
                yield date
            waiting += [node[key] for key in ("@graph", "mainEntity", "mainEntityOfPage") if key in node]
