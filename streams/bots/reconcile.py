"""The difference between the positions that should be and those that are: what a bot does next. Pure.

    desired × book × the far side's positions × now ─► records to write, then requests to make

Exits come before entries: no entry begins while an exit is under way, or is due.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

import msgspec

from infra.bots.adapter import RemotePosition
from infra.bots.definition import BotDefinition
from schemas.deliveries import DeliveryRecord, Planned
from schemas.signals import Signal
from streams.bots.book import Book
from streams.bots.positions import Signals

EXIT_PAUSES_S = (5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400)
"""Pauses after the attempts of an exit, the example schedule of Standard Webhooks (75 h); the last one repeats."""
VISIBLE_WITHIN_S = 60.0
"""Time after which the far side shows a position that it has, and no longer one that was closed."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request to make now. ``n``: the attempt. ``signal``: the revision that asks for it."""

    planned: Planned
    n: int
    signal: Signal
    remote_id: str | None = None


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done. The requests are made after the records are durable."""

    records: list[DeliveryRecord]
    requests: list[Request]


class Situation(msgspec.Struct, kw_only=True):
    """What is known now.

    ``remote``: reference → position at the far side; None: it cannot be read. ``arrived_ms``: signal → arrival of its
    latest revision. ``in_flight``: deliveries whose request is under way. ``wait_until_ms``: delivery → when the far
    side, which did not do it, may be asked again. ``exits_due``: the far side answers again, so no exit waits.
    """

    now: datetime
    remote: Mapping[str, RemotePosition] | None = None
    arrived_ms: Mapping[str, int] = {}
    in_flight: Collection[str] = ()
    wait_until_ms: Mapping[str, int] = {}
    exits_due: bool = False


def work(bot: BotDefinition, signals: Signals, book: Book, situation: Situation) -> Work:
    """Return what is to be done now. Doing it and asking again ends with nothing to do."""
    raise NotImplementedError
