"""Where a person finds what an answer cites: the public page of a source of figures, or the page that a signal rests on."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from agents.analysis.indicators import COMPUTED_FROM
from schemas.evidence import FoundSignal

PAGES = {
    "alternative.me": "https://alternative.me/crypto/fear-and-greed-index/",
    "binance": "https://www.binance.com/en/trade/{asset}_USDT",
    "blockchain.info": "https://www.blockchain.com/explorer/charts",
    "blockchair": "https://blockchair.com/",
    "coinbase": "https://www.coinbase.com/advanced-trade/spot/{asset}-USD",
    "coingecko": "https://www.coingecko.com/",
    "coinmetrics": "https://charts.coinmetrics.io/crypto-data/",
    "defillama": "https://defillama.com/",
    "fred DFF": "https://fred.stlouisfed.org/series/DFF",
    "fred DGS10": "https://fred.stlouisfed.org/series/DGS10",
    "fred DTWEXBGS": "https://fred.stlouisfed.org/series/DTWEXBGS",
    "fred M2SL": "https://fred.stlouisfed.org/series/M2SL",
    "glassnode": "https://studio.glassnode.com/",
}
"""``MarketValue.source`` → its page. Invented figures (``offline``) have none: nobody could look them up."""
MAX_CHARACTERS = 2_000
_ASSET = re.compile(r"[A-Z0-9]{1,15}")
_WRITTEN = re.compile(r"[!#-;=?-\[\]_a-z~]+")
"""The characters of an address (RFC 3986): no space, double quote, angle bracket or backslash, nothing invisible, and no letter
that only looks like another."""


def page_of(source: str, asset: str) -> str | None:
    """Return the page of a source of figures, or of what they were computed from; None for one that has none."""
    page = PAGES.get(source.removeprefix(COMPUTED_FROM))
    if page is None or not _ASSET.fullmatch(asset):
        return None if page is None or "{" in page else page
    return page.replace("{asset}", asset)


def page_behind(signal: FoundSignal) -> str | None:
    """Return the first page that a signal names and that can be linked to; None where it names none."""
    return next((url for url in signal.sources if linkable(url)), None)


def linkable(url: str) -> bool:
    """Whether an address from outside may become a link: http or https, a host, and nothing that misleads about it."""
    if len(url) > MAX_CHARACTERS or not _WRITTEN.fullmatch(url):
        return False
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises where it is no number
    except ValueError:
        return False
    # A name in front of the host reads as the host: https://sec.gov@evil.example.
    return parts.scheme in {"http", "https"} and bool(parts.hostname) and "@" not in parts.netloc
