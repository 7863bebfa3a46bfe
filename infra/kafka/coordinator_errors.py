"""Errors of a group's coordinator that aiokafka 0.14 passes by: it reads the lists beside them, which are then empty.

A coordinator that has just moved to another broker, or still loads its groups, answers a request for committed offsets (from
version 2 on) and one for a group's description with an error and empty lists. Taken at its word, the group has committed
nothing and has no members: its consumers would begin at the start of the log, and a standby would join beside a holder.
"""

from __future__ import annotations

from typing import Any

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import for_code
from aiokafka.protocol.admin import DescribeGroupsRequest
from aiokafka.protocol.commit import OffsetFetchRequest

_send = AIOKafkaClient.send


def _codes(request: Any, response: Any) -> list[int]:
    if isinstance(request, OffsetFetchRequest):
        return [getattr(response, "error_code", 0)]
    return [group[0] for group in response.groups] if isinstance(request, DescribeGroupsRequest) else []


async def _send_and_judge(self: AIOKafkaClient, node_id: int, request: Any, **more: Any) -> Any:
    response = await _send(self, node_id, request, **more)
    for code in _codes(request, response):
        if code:
            raise for_code(code)()
    return response


def raise_coordinator_errors() -> None:
    """Patch aiokafka: the clients of this process, Faust's too, raise such an error, after which they ask again."""
    AIOKafkaClient.send = _send_and_judge
