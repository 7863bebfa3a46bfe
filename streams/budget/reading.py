"""The budget's state, read from its topic."""

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
        NewerRecordError: the topic holds a record of a newer version.
    """
    state = BudgetState()
    await fold_budget(address, topics, state)
    return state


async def fold_budget(address: KafkaAddress, topics: Topics, state: BudgetState, first: int = 0) -> int:
    """Fold the topic from offset ``first`` up to its present end into ``state``; return the offset after it.

    Raises:
        NewerRecordError: the topic holds a record of a newer version. The records before it are folded.
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
        await asyncio.sleep(0)  # folding a long topic takes long; other tasks on the loop run meanwhile
    return max((end for _, end in bounds.values()), default=first)
