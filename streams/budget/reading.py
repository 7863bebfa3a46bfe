"""The budget as read from its topic."""

from __future__ import annotations

from infra.kafka.topics import KafkaAddress, offsets_of, read_range
from schemas.budget import decode
from schemas.errors import ContractError
from schemas.topics import Topics
from streams.budget.rule import BudgetState


async def read_budget(address: KafkaAddress, topics: Topics) -> BudgetState:
    """Return the fold of the whole topic up to its present end."""
    state = BudgetState()
    async for _, records in read_range(address, await offsets_of(address, topics.budget)):
        for record in records:
            try:
                state.fold(record.offset, record.timestamp, decode(record.value))
            except ContractError as exc:
                state.ignore(record.offset, record.timestamp, str(exc))
    return state
