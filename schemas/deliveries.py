"""The records of the ``deliveries`` topic: what each bot was about to do, tried, and achieved. One partition, one order.

    Planned ─► Attempted(1) ─► Settled                   delivered, refused, unknown, expired or skipped
                   └─► Attempted(2) ─► …                 exits and messages alone: an entry is attempted once
    HaltRequested ─► HaltLifted

A bot appends ``Attempted`` before it calls the destination and ``Settled`` after the answer. Its writer has a fixed
transactional id, so a second process of the same bot stops the first before that can act on an old state.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from schemas.ids import uuid5
from schemas.topics import RecordCodec

VERSION = 1

Intent = Literal["enter", "exit", "notify"]
Side = Literal["long", "short"]
Outcome = Literal["delivered", "refused", "unknown", "expired", "skipped"]
"""``delivered``: the destination did it. ``refused``: it said no. ``unknown``: the answer was lost, so it may have been done.
``expired``: too late to try. ``skipped``: a rule of the bot forbids it; ``reason`` says which."""


class Planned(msgspec.Struct, frozen=True, kw_only=True, tag="newsproof.delivery_planned", omit_defaults=True):
    """A delivery begins. ``id`` as :func:`delivery_id` makes it, so that planning twice is planning once.

    ``instrument`` is the destination's name of what is traded (``BTC/USDT``), or the channel of a message. ``entry``: for an
    exit, the delivery that it ends. ``reason``: why, in words. ``planned_at`` and ``valid_until`` are UTC; ``valid_until`` is
    the signal's. ``mode``: a paper delivery reaches no market.
    """

    id: str
    bot: str
    adapter: str
    instrument: str
    intent: Intent
    signal_id: str
    revision: int
    asset: str
    reason: str
    planned_at: datetime
    valid_until: datetime
    mode: Literal["paper", "live"]
    side: Side | None = None
    entry: str | None = None
    version: int = VERSION


class Attempted(msgspec.Struct, frozen=True, kw_only=True, tag="newsproof.delivery_attempted"):
    """The bot calls the destination for the ``n``-th time, from 1. Durable before the call."""

    delivery: str
    bot: str
    n: int
    version: int = VERSION


class Settled(msgspec.Struct, frozen=True, kw_only=True, tag="newsproof.delivery_settled", omit_defaults=True):
    """The result of a delivery. ``remote_id``: the destination's id. ``reason``: its words, or the rule's.

    ``price`` and ``fee`` (a share of the price): of a paper fill. ``seconds``: from the signal's arrival to the request.
    A later ``Settled`` of the same delivery counts: what was unknown becomes known.
    """

    delivery: str
    bot: str
    outcome: Outcome
    reason: str = ""
    remote_id: str | None = None
    price: float | None = None
    fee: float = 0.0
    seconds: float | None = None
    version: int = VERSION


class HaltRequested(msgspec.Struct, frozen=True, kw_only=True, tag="newsproof.delivery_halt_requested"):
    """No bot enters any more; with ``exit`` every position is closed. ``bot`` None: all bots. ``by``: who asked."""

    id: str
    bot: str | None
    exit: bool
    by: str
    version: int = VERSION


class HaltLifted(msgspec.Struct, frozen=True, kw_only=True, tag="newsproof.delivery_halt_lifted"):
    """Bots may make entries again. ``bot`` None: all halts end."""

    id: str
    bot: str | None
    by: str
    version: int = VERSION


DeliveryRecord = Planned | Attempted | Settled | HaltRequested | HaltLifted
_codec: RecordCodec[DeliveryRecord] = RecordCodec(
    DeliveryRecord, "deliveries", tags="newsproof.delivery_", version=VERSION
)
encode, decode, known = _codec.encode, _codec.decode, _codec.known


def delivery_id(bot: str, mode: str, intent: str, signal: str, revision: int | None = None) -> str:
    """Return the id of a delivery: an entry has one per signal (no revision), an exit one per entry (``signal``: its id).

    On paper and live they differ, since one bot may be both in turn.
    """
    return uuid5("delivery", bot, mode, intent, signal, "" if revision is None else str(revision))
