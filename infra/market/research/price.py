"""The price of an asset from the exchanges, or from CoinGecko where none of them has it."""

from __future__ import annotations

from datetime import datetime

from infra.http import UselessAnswerError, quoted
from infra.market.price import Prices
from infra.market.research.coingecko import CoinGecko
from infra.market.source import no_ticker, ticker
from schemas.effects import MarketReply
from schemas.errors import NewsproofError, PermanentError, TransientError


class ResearchPrices:
    """Prefers the exchanges, whose prices are actual trades; CoinGecko covers more coins, with hourly prices."""

    def __init__(self, exchanges: Prices, coingecko: CoinGecko) -> None:
        self._exchanges, self._coingecko = exchanges, coingecko

    async def read(self, asset: str, as_of: datetime) -> MarketReply:
        """Return the price and related figures; ``unknown`` names the sources that did not have it.

        Raises:
            NewsproofError: a source failed, and no other one has the price.
        """
        symbol = ticker(asset)
        if symbol is None:
            return MarketReply(values=(), unknown=(f"price: {no_ticker(asset)}",))
        failed: NewsproofError | None = None
        unknown: tuple[str, ...]
        try:
            found = await self._exchanges.read(symbol, as_of)
        except (TransientError, PermanentError, UselessAnswerError) as exc:
            failed, unknown = exc, (f"price: exchanges failed ({quoted(exc, 120)})",)
        else:
            if found.values:
                return found
            unknown = found.unknown
        try:
            values, absent = await self._coingecko.read(symbol, as_of)
        except (TransientError, PermanentError, UselessAnswerError) as exc:
            if failed is None or isinstance(exc, TransientError):
                raise
            raise failed from exc
        if failed is not None and not values:
            raise failed
        return MarketReply(values=tuple(values), unknown=(*unknown, *absent))

    async def close(self) -> None:
        await self._exchanges.close()
        await self._coingecko.close()
