"""The budget as read from its topic."""

from __future__ import annotations

import asyncio

from infra.kafka.topics import KafkaAddress, offsets_of, read_range
from schemas.budget import decode
from schemas.errors import ContractError
from schemas.topics import NewerRecordError, Topics
from streams.budget.rule import BudgetState


async def read_budget(address: KafkaAddress, topics: Topics) -> BudgetState:
    """Return the fold of the whole topic up to its present end.

    Raises:
        NewerRecordError: the topic holds a record of newer code.
    """
    state = BudgetState()
    await fold_budget(address, topics, state)
    return state


async def fold_budget(address: KafkaAddress, topics: Topics, state: BudgetState, first: int = 0) -> int:
    """Fold the topic from offset ``first`` up to its present end into ``state``; return the offset behind it.

    Raises:
        NewerRecordError: the topic holds a record of newer code. Up to there it is folded.
    """
    bounds = await offsets_of(address, topics.budget)
    async for _, records in read_range(address, {tp: (max(first, start), end) for tp, (start, end) in bounds.items()}):
        for record in records:
            try:
                state.fold(record.offset, record.timestamp, decode(record.value))
            except NewerRecordError:
                raise
            except ContractError as exc:
                state.ignore(record.offset, record.timestamp, str(exc))
        await asyncio.sleep(0)  # of a long topic this is much: others on the loop are served meanwhile
    return max((end for _, end in bounds.values()), default=first)
