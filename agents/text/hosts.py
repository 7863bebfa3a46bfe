"""Hosts and registrable domains of addresses, and detection of hosts that imitate an official one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode, urlsplit

from agents.text.skeleton import ascii_skeleton, host_skeleton

if TYPE_CHECKING:
    from tldextract import TLDExtract

_TRACKING = re.compile(r"^(?:utm_|spm|from$|ref$|source$|fbclid$|gclid$|share)", re.IGNORECASE)
_TLDS = frozenset({"com", "co", "io", "org", "net", "gov", "us", "cn", "hk", "to", "xyz", "app", "finance", "info"})
_DIGIT_SWAP_MIN = 5
"""Shorter brands collide with ordinary words once 0/o and 1/l are folded."""
_TYPO_MIN = 6
"""In a shorter name, a one-letter typo too often gives another real name."""


@lru_cache(maxsize=4096)
def host_of(url: str) -> str:
    """Return the host of an address in lower case, without port, user and trailing dot; empty if there is none."""
    try:
        host = urlsplit(url if "//" in url else f"//{url}").hostname or ""
    except ValueError:
        return ""
    return host.rstrip(".").lower()


def path_of(url: str) -> str:
    """Return the path of an address in lower case; empty for an invalid address."""
    try:
        return urlsplit(url).path.lower()
    except ValueError:
        return ""


@lru_cache(maxsize=4096)
def registrable_domain(host: str) -> str:
    """Return the registrable domain, or the last two labels if the public-suffix list has no match (``.example``)."""
    parts = _suffixes()(host)
    if parts.suffix:
        return f"{parts.domain}.{parts.suffix}" if parts.domain else host
    labels = [p for p in host.split(".") if p]
    return host if _is_address(host) else ".".join(labels[-2:])


@cache
def _suffixes() -> TLDExtract:
    # Its import takes long, and many commands import this module and ask for no domain.
    from tldextract import TLDExtract

    # The suffix list inside the wheel: no network, no cache directory, and the same result on every machine.
    return TLDExtract(suffix_list_urls=(), cache_dir=None)


def _is_address(host: str) -> bool:
    return ":" in host or all(p.isdigit() for p in host.split("."))


def canonical_url(url: str) -> str:
    """Return a canonical form for comparing addresses: no scheme, ``www.``, tracking, fragment or trailing slash."""
    try:
        parts = urlsplit(url if "//" in url else f"//{url}")
    except ValueError:
        return url
    kept = sorted((k, v) for k, v in parse_qsl(parts.query) if not _TRACKING.match(k)) if parts.query else ()
    query = urlencode(kept)
    host = host_of(url).removeprefix("www.").removeprefix("m.").removeprefix("amp.")
    path = parts.path.rstrip("/").removesuffix("/amp").removesuffix("/index.html")
    return f"{host}{path}?{query}" if query else f"{host}{path}"


def brand_of(domain: str) -> str:
    """Return the first label of a registrable domain: ``sec`` of sec.gov."""
    return domain.split(".", 1)[0]


class Imitations:
    """Finds hosts that imitate an official domain: homoglyphs, punycode, embedded names, swapped letters."""

    def __init__(self, official: Iterable[str], affixes: Iterable[str]) -> None:
        self._official = frozenset(official)
        self._affixes = frozenset(affixes)
        self._brands = {brand_of(d) for d in self._official} - self._affixes
        self._looks = {host_skeleton(b) for b in self._brands if len(b) >= _DIGIT_SWAP_MIN}
        self._glued = {d.replace(".", sep) for d in self._official for sep in ("", "-") if len(d) >= 6}
        self._domain_looks = {host_skeleton(d) for d in self._official if len(d) >= 7}
        named = {f for d in self._official if len(d) >= 6 for f in (d, host_skeleton(d))}
        alternation = "|".join(re.escape(d) for d in sorted(named, key=lambda d: (-len(d), d))) or r"(?!)"
        self._embedded = re.compile(rf"(?:^|[.\-])(?:{alternation})(?=[.\-])")

    def imitates(self, url: str, claim_brands: Iterable[str], asset: str = "") -> bool:
        """Return whether the host imitates an official domain. One-letter typos count only for the claim's own names.

        ``asset``: the claim's ticker; beside the name of a party (``kraken-pepe.example``) it dresses a host as the party's.
        """
        host = host_of(url)
        if not host or _is_address(host):
            return False
        if not host.isascii() or "xn--" in host:
            return self._foreign_letters(host)
        domain = registrable_domain(host)
        if domain in self._official:
            return False
        # The owner freely chooses everything left of the registrable domain, so it proves nothing.
        looks = host_skeleton(host)
        if self._embedded.search(f"{host}.") or self._embedded.search(f"{looks}."):
            return True
        label = brand_of(domain)
        swapped = label not in self._brands and host_skeleton(label) in self._looks
        if swapped or label in self._glued or host_skeleton(domain) in self._domain_looks:
            return True
        left = host.removesuffix(domain).rstrip(".").split(".")
        if any(self._poses(left, label, b) for b in claim_brands):
            return True
        return _has_user(url) or any(
            self._mimics(label, b, asset.lower()) for b in claim_brands if b not in self._affixes
        )

    def _foreign_letters(self, host: str) -> bool:
        for label in host.split("."):
            shown = _shown(label)
            if shown.isascii():
                continue
            plain = ascii_skeleton(shown).lower()
            tokens = {plain, *plain.split("-")}
            if tokens & self._brands or host_skeleton(shown) in self._looks:
                return True
        plain_host = ascii_skeleton(".".join(_shown(p) for p in host.split("."))).lower()
        return registrable_domain(plain_host) in self._official or self._embedded.search(f"{plain_host}.") is not None

    def _poses(self, left: list[str], label: str, brand: str) -> bool:
        # “coinbase.co.listing.example”, “sec.gov-filings.example”: a brand on the left, as if it were the domain.
        if brand not in left or len(brand) < 3:
            return False
        after = left[left.index(brand) + 1 :]
        dressed = bool(after) and (after[0] in _TLDS or after[0] in self._affixes)
        return dressed or any(t in self._affixes for t in label.split("-"))

    def _mimics(self, label: str, brand: str, asset: str) -> bool:
        if label == brand:
            return False
        tokens = label.split("-")
        if brand in tokens and any(t in self._affixes or t == asset for t in tokens if t != brand):
            return True
        rest = label.removeprefix(brand) if label.startswith(brand) else label.removesuffix(brand)
        if len(brand) >= 4 and rest != label and rest.strip("-") in self._affixes:
            return True
        return len(brand) >= _TYPO_MIN and label not in self._brands and _one_slip(label, brand)


def _has_user(url: str) -> bool:
    # “https://www.sec.gov@evil.example/”: an honest citation has no user name in its address.
    return "@" in url.split("//", 1)[-1].split("/", 1)[0]


def _shown(label: str) -> str:
    if not label.startswith("xn--"):
        return label
    try:
        return label[4:].encode("ascii").decode("punycode")
    except (UnicodeError, ValueError):
        return label


def _one_slip(a: str, b: str) -> bool:
    # One letter inserted, left out, replaced or swapped with its neighbour. A plural is another word, not a typo.
    if a in (f"{b}s", b.removesuffix("s")) or abs(len(a) - len(b)) > 1 or a == b:
        return False
    start = 0
    while start < min(len(a), len(b)) and a[start] == b[start]:
        start += 1
    rest_a, rest_b = a[start:], b[start:]
    if len(a) == len(b):
        swapped = len(rest_a) > 1 and rest_a[1] + rest_a[0] + rest_a[2:] == rest_b
        return rest_a[1:] == rest_b[1:] or swapped
    return rest_a[1:] == rest_b or rest_a == rest_b[1:]
