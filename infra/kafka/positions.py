"""Moves a consumer's position past records that its process already knows."""

from __future__ import annotations

from typing import Any

from aiokafka import AIOKafkaConsumer


def skip_to(consumer: AIOKafkaConsumer, tp: Any, offset: int) -> None:
    """Let a started consumer continue at this offset, if its position in this partition is before it.

    Batches that are already on their way are dropped before they are unpacked: aiokafka 0.14 compares the fetched
    offset with the position, both when a response arrives and when it is read. Unlike ``seek``, this wakes no waiting
    task.
    """
    subscription = consumer._subscription.subscription
    assignment = None if subscription is None else subscription.assignment
    state = None if assignment is None else assignment.state_value(tp)
    if state is not None and state.has_valid_position and state.position < offset:
        state.consumed_to(offset)
