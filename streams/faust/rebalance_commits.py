"""Commits during a join: refused here, so that one rebalance does not lead to the next.

Measured on aiokafka 0.14 in the chaos run: a commit that is sent while the group is being joined carries no valid
generation. Its error makes the consumer ask for another join, after the present one has ended; everybody is revoked again,
and the commit timer fires again: 44 rebalances in 50 s after a single worker had been frozen, without any load.
"""

from __future__ import annotations

from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import RebalanceInProgressError


def refuse_commits_while_joining(consumer: AIOKafkaConsumer) -> None:
    """Let a started group consumer send no commit between its revocation and its next assignment.

    Such a commit raises ``CommitFailedError`` at once, as one does that the broker refuses; nothing is sent, so the member
    stays what the join makes of it. What a revocation itself commits is before the join, and goes through.
    """
    coordinator: Any = consumer._coordinator
    send = coordinator._do_commit_offsets

    async def send_outside_joins(assignment: Any, offsets: Any) -> None:
        # The flag stands from the end of the revocation to the successful sync; the generation is -1 until a first join
        # and after the broker has forgotten this member.
        if coordinator._performed_join_prepare or coordinator.generation < 0:
            raise RebalanceInProgressError(coordinator.group_id)
        await send(assignment, offsets)

    coordinator._do_commit_offsets = send_outside_joins
