"""Links for citations: the public page of a data source, or the page that a signal is based on."""

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
"""``MarketValue.source`` → its page. Invented figures (``offline``) have no page."""
MAX_CHARACTERS = 2_000
_ASSET = re.compile(r"[A-Z0-9]{1,15}")
_WRITTEN = re.compile(r"[!#-;=?-\[\]_a-z~]+")
"""The characters of a URL (RFC 3986): no space, double quote, angle bracket, backslash, invisible or look-alike one."""


def page_of(source: str, asset: str) -> str | None:
    """Return the public page of a data source, or of the source behind computed figures; None if it has none."""
    page = PAGES.get(source.removeprefix(COMPUTED_FROM))
    if page is None or not _ASSET.fullmatch(asset):
        return None if page is None or "{" in page else page
    return page.replace("{asset}", asset)


def page_behind(signal: FoundSignal) -> str | None:
    """Return the first linkable page that a signal names, or None."""
    return next((url for url in signal.sources if linkable(url)), None)


def linkable(url: str) -> bool:
    """Return whether an address from outside may become a link: http or https, with a host, and no misleading user name."""
    if len(url) > MAX_CHARACTERS or not _WRITTEN.fullmatch(url):
        return False
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises ValueError if it is not a number
    except ValueError:
        return False
    # A user name reads like the host: https://sec.gov@evil.example.
    return parts.scheme in {"http", "https"} and bool(parts.hostname) and "@" not in parts.netloc
