"""The positions that live signals ask for: a pure fold of all revisions of all signals, and of the clock."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime

import msgspec

from infra.bots.definition import BotDefinition
from schemas.deliveries import Side
from schemas.signals import WITHDRAWN, Signal


class DesiredPosition(msgspec.Struct, frozen=True, kw_only=True):
    """The position that an instrument should have; ``side`` None: none. ``signal``: the latest that asks for it.

    ``reason``: why, in words.
    """

    side: Side | None
    reason: str
    signal: Signal | None = None


NOBODY_ASKS = DesiredPosition(side=None, reason="no live signal asks for the position")


class Signals:
    """The latest revision of each signal. Records of different signals may come in any order."""

    def __init__(self, bot: BotDefinition) -> None:
        self.latest: dict[str, Signal] = {}
        self.arrived_ms: dict[str, int] = {}
        """Signal → arrival of its latest revision, in milliseconds since 1970."""
        self._bot = bot
        self._live: dict[str, dict[str, Signal]] = {}
        """Asset → signals that ask for a position."""

    def take(self, signal: Signal, at_ms: int) -> bool:
        """Apply a revision that arrived at ``at_ms``; return whether it is the latest of its signal."""
        known = self.latest.get(signal.signal_id)
        if known is not None and signal.revision <= known.revision:
            return False
        self.latest[signal.signal_id], self.arrived_ms[signal.signal_id] = signal, at_ms
        if known is not None:
            self._live.get(known.asset.upper(), {}).pop(signal.signal_id, None)
        if self._bot.refusal_of(signal) is None:
            self._live.setdefault(signal.asset.upper(), {})[signal.signal_id] = signal
        return True

    def desired(self, now: datetime) -> dict[str, DesiredPosition]:
        """Return instrument → the position that live signals ask for at ``now`` (UTC). Others: :data:`NOBODY_ASKS`.

        The latest decision wins. Opposite signals on one asset mean no position until one of them is gone.
        """
        wanted = {}
        for asset, signals in self._live.items():
            for gone in [id for id, signal in signals.items() if signal.valid_until <= now]:
                del signals[gone]
            if (last := _latest(signals.values())) is None:
                continue
            against = _latest(signal for signal in signals.values() if signal.action != last.action)
            wanted[self._bot.map[asset]] = (
                DesiredPosition(side="long" if last.action == "buy" else "short", reason=last.action, signal=last)
                if against is None
                else DesiredPosition(side=None, reason=f"opposite signals: {last.signal_id} and {against.signal_id}")
            )
        return wanted

    def next_change(self) -> datetime | None:
        """Return when the clock next ends a live signal (UTC); None if there is none."""
        return min((signal.valid_until for live in self._live.values() for signal in live.values()), default=None)

    def forget(self, before: datetime, held: Collection[str]) -> None:
        """Forget the signals that ended before this time (UTC), except those of open positions (``held``)."""
        for id in [id for id, signal in self.latest.items() if signal.valid_until < before and id not in held]:
            del self.latest[id], self.arrived_ms[id]

    def why_gone(self, id: str, now: datetime) -> str:
        """Return in words why a signal asks for no position any more."""
        if (signal := self.latest.get(id)) is None:
            return NOBODY_ASKS.reason
        if signal.stage in WITHDRAWN:
            return signal.stage
        if signal.valid_until <= now:
            return f"expired at {signal.valid_until:%Y-%m-%d %H:%M:%S} UTC"
        return self._bot.refusal_of(signal) or NOBODY_ASKS.reason


def _latest(signals: Iterable[Signal]) -> Signal | None:
    return max(signals, key=lambda signal: (signal.decided_at, signal.signal_id), default=None)
