"""Generates synthetic news, all different, for a self-test that sends them through a real installation.

The items depend only on the seed. They cover every kind of news that steps distinguish: claims in English and Chinese,
rumours, variants of the sample's real texts (for which the offline corpus has evidence), copies by other sources,
edits, denials of earlier claims, and spam.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from infra.offline.sample_news import sample_news
from schemas.news import News

FIRST = datetime(2024, 1, 1, tzinfo=UTC)
APART = timedelta(seconds=90)
"""Time between two items: ten thousand items span ten days."""
SOURCES = ("wire-a", "wire-b", "channel-c", "feed-d")
_KINDS = {"claim": 62, "rumour": 8, "sample": 16, "copy": 4, "edit": 3, "denial": 5, "spam": 2}
_FIRMS = ("Binance", "Coinbase", "Kraken", "OKX", "Bybit", "Bitfinex", "Gemini", "KuCoin", "Circle", "Tether", "BlackRock",
          "Fidelity", "Tesla", "PayPal", "Robinhood", "MicroStrategy", "Ripple", "Lido", "Uniswap", "Aave")  # fmt: skip
_COINS = ("BTC", "ETH", "SOL", "XRP", "ADA", "DOGE", "LTC", "BNB", "AVAX", "LINK", "DOT", "UNI", "AAVE", "USDC", "USDT")
_CLAIMS = (
    "{firm} to list {coin} on {day}, trading volume of the pair reached ${amount} in tests",
    "{firm} announces a partnership with {other} to settle ${amount} a year in {coin}",
    "{firm} exploited, about ${amount} in {coin} moved from its hot wallet",
    "SEC sues {firm} over ${amount} of unregistered {coin} sales",
    "{firm} buys {coin} for ${amount}, filing of {day} says",
    "{firm} halts withdrawals of {coin} after ${amount} of requests",
    "{coin} falls as ${amount} in leveraged positions are liquidated on {firm}",
    "A wallet dormant since {day} moves ${amount} of {coin} to {firm}",
    "{firm} 将于 {day} 上线 {coin},首日额度 {amount} 美元",
    "{firm} 遭受攻击,约 {amount} 美元的 {coin} 被盗",
    "{firm} 宣布与 {other} 合作,以 {coin} 结算 {amount} 美元",
    "监管机构起诉 {firm},涉及 {amount} 美元的 {coin}",
)
_RUMOURS = (
    "Sources say {firm} may buy {other} for ${amount} in {coin}, unconfirmed",
    "传闻 {firm} 将收购 {other},作价 {amount} 美元的 {coin}",
)
_DENIALS = ("{firm} denies the report: {claim}", "{firm} 否认此前消息,称报道不实:{claim}")
_SPAM = "Airdrop! Send {coin} to this address and get double back, bonus code {amount}, click the link"


def generated_news(count: int, *, seed: int) -> Iterator[News]:
    """Yield ``count`` items in the order of their publication; the same seed yields the same items."""
    draw, sample = random.Random(seed), sample_news()
    items: list[News] = []
    for number in range(count):
        (kind,) = draw.choices(list(_KINDS), list(_KINDS.values()))
        item = News(
            source=draw.choice(SOURCES),
            external_id=f"{seed}-{number}",
            text=_text(kind, number, draw),
            published_at=FIRST + number * APART,
        )
        if kind == "sample":
            like = draw.choice(sample)
            item = replace(item, text=f"{like.text} ({_amount(number, draw)})", published_at=like.published_at)
        elif items and kind in ("copy", "edit", "denial"):
            item = _of_another(kind, draw.choice(items[-200:]), item, draw)
        items.append(item)
        yield item


def _of_another(kind: str, earlier: News, item: News, draw: random.Random) -> News:
    if kind == "copy":
        others = [s for s in SOURCES if s != earlier.source]
        return replace(item, source=draw.choice(others), text=earlier.text)
    if kind == "edit":
        return replace(
            item, source=earlier.source, external_id=earlier.external_id, text=f"{earlier.text} {item.text[-40:]}"
        )
    firm = next((f for f in _FIRMS if f in earlier.text), "Binance")
    return replace(item, text=draw.choice(_DENIALS).format(firm=firm, claim=earlier.text))


def _text(kind: str, number: int, draw: random.Random) -> str:
    texts = {"rumour": _RUMOURS, "spam": (_SPAM,)}.get(kind, _CLAIMS)
    firm, other = draw.sample(_FIRMS, 2)
    day = (FIRST + timedelta(days=draw.randrange(365))).strftime("%d %B")
    return draw.choice(texts).format(
        firm=firm, other=other, coin=draw.choice(_COINS), day=day, amount=_amount(number, draw)
    )


def _amount(number: int, draw: random.Random) -> str:
    """Return an amount unique to the item: its last digits are the item's number."""
    return f"{draw.randrange(1, 900)},{number // 1000 % 1000:03d},{number % 1000:03d}"
