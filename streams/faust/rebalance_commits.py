"""Refusal of commits during a join, so that one rebalance does not cause the next.

Measured on aiokafka 0.14 in the chaos run: a commit sent while the group is joining carries no valid generation. Its
error makes the consumer request another join after the present one. All members are revoked again, and the commit timer
fires again: 44 rebalances in 50 s after a single worker had been frozen, without any load.
"""

from __future__ import annotations

from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import RebalanceInProgressError


def refuse_commits_while_joining(consumer: AIOKafkaConsumer) -> None:
    """Make a started group consumer refuse commits between its revocation and its next assignment.

    Such a commit raises ``CommitFailedError`` at once, like one that the broker refuses. Nothing is sent, so the member
    keeps the state that the join gives it. Commits during the revocation itself precede the join, and are sent.
    """
    coordinator: Any = consumer._coordinator
    send = coordinator._do_commit_offsets

    async def send_outside_joins(assignment: Any, offsets: Any) -> None:
        # The flag is set from the end of the revocation to the successful sync; the generation is -1 before the first
        # join and after the broker has dropped this member.
        if coordinator._performed_join_prepare or coordinator.generation < 0:
            raise RebalanceInProgressError(coordinator.group_id)
        await send(assignment, offsets)

    coordinator._do_commit_offsets = send_outside_joins
