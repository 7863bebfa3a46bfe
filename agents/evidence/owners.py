"""Who stands behind a page: the registrable domain, or on a platform the account."""

from __future__ import annotations

import re
from collections.abc import Collection
from urllib.parse import parse_qs, urlsplit

from agents.evidence.hosts import host_of, registrable_domain

_SAME_PLATFORM = {"twitter.com": "x.com", "weibo.cn": "weibo.com", "telegram.me": "t.me"}
_BEFORE_ACCOUNT = frozenset(
    {"s", "c", "u", "user", "users", "people", "r", "in", "company", "channel", "pub", "profile"}
)
_NO_ACCOUNT = frozenset({"www", "m", "mobile", "en", "zh", "mp", "old"})
_EDGAR = re.compile(r"/archives/edgar/data/0*(\d+)(?:/|$)")


def owner_of(url: str, platforms: Collection[str]) -> str:
    """Return the registrable domain of an address, ``platform/account`` where anybody may publish, ``sec.gov/CIK`` of a filing."""
    host = host_of(url)
    domain = registrable_domain(host)
    if (filer := registrant_of(url)) is not None:
        return f"{domain}/{filer}"
    if host == "mp.weixin.qq.com":
        return f"mp.weixin.qq.com/{_query(url, '__biz') or _first_segment(url)}"
    if domain not in platforms:
        return domain
    platform = _SAME_PLATFORM.get(domain, domain)
    below = host.removesuffix(domain).rstrip(".")
    account = below if below and below not in _NO_ACCOUNT else _first_segment(url)
    return f"{platform}/{account}" if account else platform


def registrant_of(url: str) -> str | None:
    """Return the CIK (digits, no leading zeros) of the registrant whose EDGAR filing this is, None for another page."""
    if registrable_domain(host_of(url)) != "sec.gov":
        return None
    found = _EDGAR.search(urlsplit(url).path.lower())
    return found[1] if found else None


def _first_segment(url: str) -> str:
    parts = [p.lstrip("@") for p in urlsplit(url).path.lower().split("/") if p]
    while len(parts) > 1 and parts[0] in _BEFORE_ACCOUNT:
        parts.pop(0)
    return parts[0] if parts else ""


def _query(url: str, name: str) -> str:
    return next(iter(parse_qs(urlsplit(url).query).get(name, ())), "")
