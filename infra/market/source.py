"""The base of all sources of figures: one request with its errors, concurrent reading, and exact parsing of numbers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any

import httpx
import msgspec

from infra.http import UselessAnswerError, checked_key, guarded_client, quoted
from infra.http_json import Service, ServiceClient, error_message, exchange, refused
from schemas.effects import MarketReply
from schemas.errors import PermanentError, TransientError
from schemas.evidence import MarketValue

_TICKER = re.compile(r"[A-Z0-9]{1,15}\Z")
_DAY = timedelta(days=1)
_SERIES_MAX_AGE = timedelta(days=3)
_NO_ASSET = frozenset({"", "UNKNOWN", "NONE", "NA", "NULL", "OTHER", "MULTIPLE", "ALL", "CRYPTO"})


class Point(msgspec.Struct, frozen=True):
    """A figure of a series, known from ``at`` on."""

    at: datetime
    value: Decimal


class FigureService(Service, frozen=True, kw_only=True):
    """A service of figures. ``about``: its figures. ``key_adds``: the use of its optional key. Both are for people."""

    about: str
    key_adds: str = ""


class Source(ServiceClient):
    """The client of a service of figures. ``key`` is None without a key; the subclass or the caller sends it."""

    def __init__(
        self,
        service: FigureService,
        base_url: str,
        *,
        timeout_s: float,
        key: str | None = None,
        key_header: str | None = None,
    ) -> None:
        """``key_header``: name of the header for the key, if it is sent in a header.

        Raises:
            ConfigError: the address or the key is invalid; the text names its setting.
        """
        self.offered, self.base_url = service, base_url
        self.key = None if key is None else checked_key(key, service.key_setting)
        headers = {key_header: self.key} if key_header and self.key else None
        used = service if self.key else msgspec.structs.replace(service, key_setting="")
        super().__init__(used, base_url, timeout_s=timeout_s, headers=headers)

    async def probe(self, timeout_s: float) -> int:
        """Send one HEAD request to the address, without the key; return the status.

        Raises:
            TransientError, PermanentError, UselessAnswerError: as :func:`infra.http_json.exchange`.
        """
        async with guarded_client(self.base_url, timeout_s=timeout_s) as client:
            request = client.build_request("HEAD", self.base_url)
            return (await exchange(client, request, self.service, timeout_s)).status_code

    async def get(
        self, path: str, params: Mapping[str, str], *, absent: frozenset[int] = frozenset()
    ) -> httpx.Response:
        """Send a GET request; return the response, whose status is 200 or one of ``absent`` ("no such data").

        Raises:
            TransientError, PermanentError: as :func:`infra.http_json.refused`.
            UselessAnswerError: too_large.
        """
        response = await self.send("GET", path, params=dict(params))
        if response.status_code != 200 and response.status_code not in absent:
            message = error_message(response, "message", "msg", "error")
            raise refused(self.service, response.status_code, message, response.headers)
        return response


Known = tuple[list[MarketValue], list[str]]
Reading = Callable[[str, datetime], Awaitable[Known]]
_FAILED = (TransientError, PermanentError, UselessAnswerError)


class Figures:
    """A group of readings of one kind, keyed by source name."""

    def __init__(self, kind: str, readings: Mapping[str, Reading], sources: Sequence[Source]) -> None:
        self._kind, self._readings, self.sources = kind, dict(readings), tuple(sources)

    async def read(self, asset: str, as_of: datetime) -> MarketReply:
        """Return every figure that is known at ``as_of``.

        Raises:
            NewsproofError: every source failed. A transient failure takes precedence over a permanent one.
        """
        return await together(self._kind, self._readings, asset, as_of)


async def together(kind: str, readings: Mapping[str, Reading], asset: str, as_of: datetime) -> MarketReply:
    """Run all readings concurrently and merge their figures.

    Raises:
        NewsproofError: all of them failed.
    """
    answers = await asyncio.gather(*(read(asset, as_of) for read in readings.values()), return_exceptions=True)
    failures = [answer for answer in answers if isinstance(answer, BaseException)]
    if strange := [answer for answer in failures if not isinstance(answer, _FAILED)]:
        raise strange[0]
    if failures and len(failures) == len(answers):
        raise next((answer for answer in failures if isinstance(answer, TransientError)), failures[0])
    values: list[MarketValue] = []
    unknown: list[str] = []
    for name, answer in zip(readings, answers, strict=True):
        if isinstance(answer, BaseException):
            unknown.append(f"{kind}: {name} failed ({quoted(answer, 120)})")
        else:
            values += answer[0]
            unknown += answer[1]
    return MarketReply(values=tuple(values), unknown=tuple(unknown))


@lru_cache(maxsize=4096)  # an event study calls it three times for each of its signals
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
        decimal = Decimal(value if not isinstance(value, float) else repr(value))
    except (InvalidOperation, ValueError):
        return None
    return decimal if decimal.is_finite() and abs(decimal) < Decimal("1e30") else None


def when(value: Any, *, per_second: int = 1) -> datetime | None:
    """Convert an epoch number to UTC; None if the value is not one."""
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
    """Return the figure for the journal: calculated exactly, stored as the nearest float."""
    return MarketValue(name=name, value=float(value), unit=unit, source=source, observed_at=at)


def series_figures(name: str, unit: str, source: str, read: list[Point | None], as_of: datetime) -> Known:
    """Return the newest figure of a series known at ``as_of``, and its changes over a day and a week.

    Raises:
        UselessAnswerError: there are rows, but none can be read.
    """
    points = [p for p in read if p is not None]
    if read and not points:
        raise UselessAnswerError(f"no figure of {source} can be read")
    newest = last_known(points, as_of, max_age=_SERIES_MAX_AGE)
    if newest is None:
        return [], [f"{name}: none of the days before {as_of:%Y-%m-%d}"]
    values, unknown = [market_value(name, newest.value, unit, source, newest.at)], []
    for label, span in (("1d", _DAY), ("7d", 7 * _DAY)):
        before = last_known(points, newest.at - span, max_age=_DAY)
        change: Decimal | None = change_pct(newest.value, before.value if before else None)
        if change is None:
            unknown.append(f"{name}_change_{label}: nothing to compare with")
        else:
            values.append(market_value(f"{name}_change_{label}", change, "%", source, newest.at))
    return values, unknown
