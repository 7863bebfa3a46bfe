"""The deliveries of bots in the audit: entries that were made twice. A fold of its own, not that of the bots."""

from __future__ import annotations

from collections import Counter

import msgspec

from schemas.deliveries import Attempted, Outcome, Planned, Settled, decode
from schemas.errors import ContractError
from schemas.topics import Topics
from streams.journal.log import Log


class _Entry(msgspec.Struct):
    planned: Planned
    attempts: int = 0
    outcome: Outcome | None = None


class AuditedDeliveries(msgspec.Struct):
    """``foreign``: records that no bot wrote. The two others: as in ``AuditReport``."""

    foreign: int = 0
    entries_delivered_twice: int = 0
    entries_attempted_again: int = 0

    @classmethod
    async def read(cls, log: Log, topics: Topics) -> AuditedDeliveries:
        """Read the topic up to its present end."""
        found, entries, ended = cls(), dict[tuple[str, str], _Entry](), list[_Entry]()
        bounds = await log.bounds(topics.deliveries, isolation="read_committed")
        async for _, records in log.replay(bounds, isolation="read_committed"):
            for record in records:
                try:
                    said = decode(record.value)
                except ContractError:
                    found.foreign += 1
                    continue
                if isinstance(said, Planned) and said.intent == "enter":
                    before = entries.get((said.bot, said.id))
                    if before is None or _far_side(before) != (said.adapter, said.mode):
                        if before is not None:
                            ended.append(before)
                        entries[said.bot, said.id] = _Entry(said)
                elif isinstance(said, Attempted | Settled) and (entry := entries.get((said.bot, said.delivery))):
                    if isinstance(said, Settled):
                        entry.outcome = said.outcome
                    else:
                        found.entries_attempted_again += said.n <= entry.attempts or entry.outcome in _MAY_BE_OPEN
                        entry.attempts = max(entry.attempts, said.n)
        delivered = Counter(
            (one.planned.bot, *_far_side(one), one.planned.signal_id)
            for one in (*ended, *entries.values())
            if one.outcome == "delivered"
        )
        found.entries_delivered_twice = sum(count - 1 for count in delivered.values())
        return found


_MAY_BE_OPEN = ("delivered", "unknown")


def _far_side(entry: _Entry) -> tuple[str, str]:
    return entry.planned.adapter, entry.planned.mode
