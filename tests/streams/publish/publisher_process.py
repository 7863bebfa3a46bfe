"""A publisher that dies inside a transaction, in a process of its own."""

from __future__ import annotations

import os
from typing import Any

from infra.kafka.topics import KafkaAddress
from schemas.topics import Topics
from streams import lease
from streams.publish import publisher as module
from streams.publish.publisher import Publisher


async def publish_and_die(address: KafkaAddress, topics: Topics, sends: int, timeout_ms: int) -> None:
    """Die with status 17 after this many signals of a transaction have been sent and flushed, but not committed."""
    left = sends
    make = address.producer

    def deadly(**more: Any) -> Any:
        producer = make(**more)
        send = producer.send

        async def send_and_die(*args: Any, **kwargs: Any) -> Any:
            nonlocal left
            sent = await send(*args, **kwargs)
            left -= 1
            if left == 0:
                await producer.flush()
                os._exit(17)
            return sent

        producer.send = send_and_die
        return producer

    class Address:
        """The address, with a deadly producer."""

        producer = staticmethod(deadly)

        def __getattr__(self, name: str) -> Any:
            return getattr(address, name)

    lease.SESSION_S = 2.5  # its successor waits until this process, which does not leave its group, has lost the lease
    module.TRANSACTION_TIMEOUT_MS = timeout_ms
    await Publisher(Address(), topics).run()  # type: ignore[arg-type]
