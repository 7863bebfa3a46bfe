"""State of the providers by the calls that cases have recorded, whichever worker made them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import msgspec

from schemas.calls import Call, CallKind
from schemas.effects import Failure
from schemas.errors import FailureKind
from streams.effects.host import GOES_ON, GUARDED


class ProviderState(msgspec.Struct, frozen=True, kw_only=True):
    """The newest call of a kind to a provider. ``failing``: it failed in a way for which the next provider is asked.

    ``since``: of the first such failure after the last call that worked. Times are UTC.
    """

    kind: CallKind
    provider: str
    at: datetime
    failing: FailureKind | None = None
    since: datetime | None = None


class ProviderStates:
    """Fold of calls, in any order. Replies of the cache say nothing of a provider."""

    def __init__(self) -> None:
        self._newest: dict[tuple[CallKind, str], ProviderState] = {}

    def take(self, calls: Iterable[Call]) -> None:
        for call in calls:
            before = self._newest.get(key := (call.kind, call.provider))
            if call.kind not in GUARDED or call.cached or (before is not None and call.replied_at < before.at):
                continue
            failing = call.reply.kind if isinstance(call.reply, Failure) and call.reply.kind in GOES_ON else None
            began = before.since if before is not None else None
            self._newest[key] = ProviderState(
                kind=call.kind,
                provider=call.provider,
                at=call.replied_at,
                failing=failing,
                since=None if failing is None else began or call.replied_at,
            )

    def all(self) -> tuple[ProviderState, ...]:
        """Return every provider that was called, by kind and name."""
        return tuple(one for _, one in sorted(self._newest.items()))
