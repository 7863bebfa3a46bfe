"""Concurrent reading of several sources: collects their figures, the missing ones, and the sources that failed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime

from infra.http import UselessAnswerError, quoted
from infra.market.source import Source
from schemas.effects import MarketReply
from schemas.errors import PermanentError, TransientError
from schemas.evidence import MarketValue

Known = tuple[list[MarketValue], list[str]]
Reading = Callable[[str, datetime], Awaitable[Known]]
_FAILED = (TransientError, PermanentError, UselessAnswerError)


class Figures:
    """A group of readings of one kind, keyed by source name."""

    def __init__(self, kind: str, readings: Mapping[str, Reading], sources: Sequence[Source]) -> None:
        self._kind, self._readings, self._sources = kind, dict(readings), tuple(sources)

    async def read(self, asset: str, as_of: datetime) -> MarketReply:
        """Return every figure that is known at ``as_of``.

        Raises:
            NewsproofError: every source failed. A transient failure is preferred to a permanent one.
        """
        return await together(self._kind, self._readings, asset, as_of)

    async def close(self) -> None:
        for source in self._sources:
            await source.close()


async def together(kind: str, readings: Mapping[str, Reading], asset: str, as_of: datetime) -> MarketReply:
    """Run all readings concurrently and merge their figures.

    Raises:
        NewsproofError: all of them failed.
    """
    answers = await asyncio.gather(*(read(asset, as_of) for read in readings.values()), return_exceptions=True)
    failures = [one for one in answers if isinstance(one, BaseException)]
    if strange := [one for one in failures if not isinstance(one, _FAILED)]:
        raise strange[0]
    if failures and len(failures) == len(answers):
        raise next((one for one in failures if isinstance(one, TransientError)), failures[0])
    values: list[MarketValue] = []
    unknown: list[str] = []
    for name, one in zip(readings, answers, strict=True):
        if isinstance(one, BaseException):
            unknown.append(f"{kind}: {name} failed ({quoted(one, 120)})")
        else:
            values += one[0]
            unknown += one[1]
    return MarketReply(values=tuple(values), unknown=tuple(unknown))
