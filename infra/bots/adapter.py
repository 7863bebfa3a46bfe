"""The interface between the core of bots and a destination. Each kind of destination has one adapter.

An adapter makes one request per call and never retries: the core does, by one table. It never reads the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal, Protocol, runtime_checkable

import msgspec

from schemas.deliveries import Side
from schemas.signals import Signal


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """One entry or exit. ``reference``: the id of the entry's delivery, which the destination keeps if it can.

    ``signal`` is the revision that asks for it. Of an exit, ``remote_id`` is the entry's id at the destination, if it gave one.
    """

    bot: str
    intent: Literal["enter", "exit"]
    instrument: str
    side: Side
    reference: str
    signal: Signal
    reason: str
    at: datetime
    remote_id: str | None = None


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a destination.

    ``delivered``, ``refused`` (it said no, and would again), ``unknown`` (no answer, so it may be done), or ``throttled``
    (it was not done; wait ``wait_s`` and ask again). ``disabled``: it refuses all further requests. ``reason``: its words.
    """

    outcome: Literal["delivered", "refused", "unknown", "throttled", "disabled"]
    reason: str = ""
    remote_id: str | None = None
    wait_s: float = 0.0
    price: float | None = None
    fee: float = 0.0


class RemotePosition(msgspec.Struct, frozen=True, kw_only=True):
    """A position of ours that the destination has. ``reference``: the entry's delivery."""

    instrument: str
    side: Side
    reference: str
    remote_id: str
    is_open: bool


class OrderAdapter(Protocol):
    """A destination with positions. The constructor checks its settings and opens no connection."""

    async def check(self) -> None:
        """Ask the destination whether it is ready.

        Raises:
            ConfigError: it is not; the text says what to change.
            TransientError: it does not respond.
        """
        ...

    async def positions(self) -> Mapping[str, RemotePosition] | None:
        """Return reference → our positions, open and closed ones of the last days; None: this destination cannot be read.

        Raises:
            TransientError: it does not respond now.
        """
        ...

    async def perform(self, order: Order) -> Result:
        """Send one order. Never raises for what the destination does: a lost or unreadable answer is ``unknown``."""
        ...

    async def close(self) -> None: ...


@runtime_checkable
class StopsEntries(Protocol):
    """A destination that can refuse entries itself, whoever asks for them."""

    async def stop_entries(self) -> None:
        """Let it open nothing any more, until a person starts it there again. Exits go on.

        Raises:
            TransientError: it does not respond, or refuses.
        """
        ...


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A message for people. ``text`` is plain; ``link`` is the address of our case page, if there is one."""

    reference: str
    text: str
    link: str | None
    urgent: bool


class MessageAdapter(Protocol):
    """A channel that people read. The constructor checks its settings and opens no connection.

    ``rates``: (messages, seconds) that it takes at most; its callers keep to them.
    """

    @property
    def name(self) -> str: ...

    @property
    def rates(self) -> tuple[tuple[int, float], ...]: ...

    async def check(self) -> None: ...

    async def send(self, message: Message) -> Result:
        """Send one message. A message that is refused for its size or markup is shortened and sent again, never dropped."""
        ...

    async def close(self) -> None: ...
