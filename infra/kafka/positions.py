"""Moves of a consumer's position past records that its process knows already."""

from __future__ import annotations

from typing import Any

from aiokafka import AIOKafkaConsumer


def skip_to(consumer: AIOKafkaConsumer, tp: Any, offset: int) -> None:
    """Let a started consumer read on from this offset, if its position in this partition is before it.

    What is on its way from there is dropped before it is unpacked: aiokafka 0.14 compares the offset that was fetched with
    the position, when an answer arrives and when it is read. Unlike ``seek``, this wakes nobody up.
    """
    subscription = consumer._subscription.subscription
    assignment = None if subscription is None else subscription.assignment
    state = None if assignment is None else assignment.state_value(tp)
    if state is not None and state.has_valid_position and state.position < offset:
        state.consumed_to(offset)
