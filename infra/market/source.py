"""What the sources of figures share: one request with its errors, and exact parsing of numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any

import httpx
import msgspec

from infra.http import quoted
from infra.http_json import ServiceClient, error_message, refused
from schemas.evidence import MarketValue

_TICKER = re.compile(r"[A-Z0-9]{1,15}\Z")
_NO_ASSET = frozenset({"", "UNKNOWN", "NONE", "NA", "NULL", "OTHER", "MULTIPLE", "ALL", "CRYPTO"})


class Point(msgspec.Struct, frozen=True):
    """One figure of a series, known from ``at`` on."""

    at: datetime
    value: Decimal


class Source(ServiceClient):
    """The client of one service of figures, without a key or with one in ``headers``."""

    async def get(
        self, path: str, params: Mapping[str, str], *, absent: frozenset[int] = frozenset()
    ) -> httpx.Response:
        """Send one GET request; return its response with status 200 or one of ``absent`` ("no such data").

        Raises:
            TransientError, PermanentError: as :func:`infra.http_json.refused`.
            UselessAnswerError: too_large.
        """
        response = await self.send("GET", path, params=dict(params))
        if response.status_code != 200 and response.status_code not in absent:
            said = error_message(response, "message", "msg", "error")
            raise refused(self.service, response.status_code, said, response.headers)
        return response


@lru_cache(maxsize=4096)  # an event study asks it three times for each of its signals
def ticker(asset: str) -> str | None:
    """Return the asset as a ticker that is safe in a URL, else None. Untrusted text must pass through here."""
    written = asset.strip().upper().lstrip("$")
    return written if _TICKER.match(written) and written not in _NO_ASSET else None


def no_ticker(asset: str) -> str:
    """Return the error text for an asset that is not a ticker."""
    return f"{quoted(asset, 40) or 'no asset'} is no ticker"


def number(value: Any) -> Decimal | None:
    """Parse a finite number exactly from a JSON number or string; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | str | float | Decimal):
        return None
    try:
        found = Decimal(value if not isinstance(value, float) else repr(value))
    except (InvalidOperation, ValueError):
        return None
    return found if found.is_finite() and abs(found) < Decimal("1e30") else None


def when(value: Any, *, per_second: int = 1) -> datetime | None:
    """Convert an epoch number to UTC; None when it is not one."""
    seconds = number(value)
    if seconds is None or not 0 <= seconds / per_second < Decimal("4e9"):
        return None
    return datetime.fromtimestamp(float(seconds / per_second), UTC)


def last_known(points: list[Point], as_of: datetime, *, max_age: timedelta) -> Point | None:
    """Return the newest point known at ``as_of`` and no older than ``max_age``."""
    known = [p for p in points if as_of - max_age <= p.at <= as_of]
    return max(known, key=lambda p: p.at) if known else None


def change_pct(now: Decimal, before: Decimal | None) -> Decimal | None:
    """Return the change in percent, rounded to three places; None without a positive base."""
    if before is None or before <= 0:
        return None
    return ((now - before) / before * 100).quantize(Decimal("0.001"))


def market_value(name: str, value: Decimal, unit: str, source: str, at: datetime) -> MarketValue:
    """Build the figure for the journal: calculated exactly, stored as the nearest float."""
    return MarketValue(name=name, value=float(value), unit=unit, source=source, observed_at=at)
