"""Large transfers of the last 24 hours, from Blockchair, which allows occasional requests without a key.

Wire format: https://github.com/Blockchair/Blockchair.Support/blob/master/API_DOCUMENTATION_EN.md, "Infinitable
endpoints". ``q`` holds the filters, ``s`` sorts the largest first, ``context.total_rows`` is the count. The limit
without a key is 1,440 requests a day. Statuses 402, 429 and 435–437 report an exhausted limit, 430 and 434 a
temporarily blocked address.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import httpx

from infra.http import UselessAnswerError, checked_key
from infra.http_json import Service, error_message, json_object, refused
from infra.market.side_by_side import Known
from infra.market.source import Source, market_value, number
from schemas.errors import TransientError

LARGE_USD = 10_000_000
CHAINS = {
    "BTC": ("bitcoin", "output_total_usd"),
    "ETH": ("ethereum", "value_usd"),
    "LTC": ("litecoin", "output_total_usd"),
    "BCH": ("bitcoin-cash", "output_total_usd"),
    "DOGE": ("dogecoin", "output_total_usd"),
}
"""Ticker of a chain's coin → Blockchair's name of the chain, and the field with the value that a transaction moved."""
_SERVICE = Service(name="Blockchair", address_setting="BLOCKCHAIR_BASE_URL", key_setting="BLOCKCHAIR_API_KEY")
_LIMITS = frozenset({402, 429, 435, 436, 437})
_BLOCKED = frozenset({430, 434})


class Whales:
    """The number of large transactions and the largest of them. ``api_key`` is optional.

    Raises (constructor):
        ConfigError: the address or the key is invalid.
    """

    def __init__(self, base_url: str, *, api_key: str | None, timeout_s: float) -> None:
        self._key = {"key": checked_key(api_key, "BLOCKCHAIR_API_KEY")} if api_key is not None else {}
        self._source = Source(_SERVICE, base_url, timeout_s=timeout_s)

    async def read(self, symbol: str, as_of: datetime) -> Known:
        """Return the figures of a chain in ``CHAINS``.

        Raises:
            NewsproofError: the request failed, or the response cannot be parsed.
        """
        chain, field = CHAINS[symbol]
        since, until = (f"{at:%Y-%m-%d %H:%M:%S}" for at in (as_of - timedelta(hours=24), as_of))
        params = {"q": f"{field}({LARGE_USD}..),time({since}..{until})", "s": f"{field}(desc)", "limit": "1"}
        response = await self._source.get(f"/{chain}/transactions", {**params, **self._key}, absent=_LIMITS | _BLOCKED)
        if response.status_code != 200:
            raise _held_off(response)
        body = json_object(response, _SERVICE)
        context, rows = body.get("context"), body.get("data")
        count = number(context.get("total_rows")) if isinstance(context, dict) else None
        if count is None or not isinstance(rows, list) or (count > 0 and not rows):
            raise UselessAnswerError(
                "Blockchair's answer does not say how many transfers there were; it is asked again"
            )
        unit = f"transactions of {LARGE_USD // 1_000_000} million USD or more in 24 h"
        values = [market_value("whale_transfers", count, unit, "blockchair", as_of)]
        largest = number(rows[0].get(field)) if rows and isinstance(rows[0], dict) else None
        if largest is None:
            return values, [
                "whale_transfer_largest: there was none" if not rows else "whale_transfer_largest: not given"
            ]
        return [*values, market_value("whale_transfer_largest", largest, "USD", "blockchair", as_of)], []

    async def close(self) -> None:
        await self._source.close()


def _held_off(response: httpx.Response) -> Exception:
    said = error_message(response, "context", "error")
    if response.status_code in _LIMITS:
        found = refused(_SERVICE, 429, f"{said}; BLOCKCHAIR_API_KEY raises it", response.headers)
        found.status = response.status_code
        return found
    text = f"Blockchair blocks this address for a while ({said}); it is tried again, BLOCKCHAIR_API_KEY helps"
    return TransientError(text, kind="blocked", status=response.status_code)
