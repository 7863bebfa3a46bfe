"""A process that works while it holds a lease: ``python -m tests.streams.lease_process BOOTSTRAP PASSWORD_FILE GROUP TOPIC``."""

from __future__ import annotations

import asyncio
import sys

from infra.kafka.topics import KafkaAddress
from streams import lease


async def _main(bootstrap: str, password_file: str, group: str, topic: str) -> None:
    """Report on standard output when the work begins and when it ends."""

    async def work() -> None:
        print("begins", flush=True)
        try:
            await asyncio.Event().wait()
        finally:
            print("ends", flush=True)

    lease.SESSION_S = 2.5
    await lease.Lease(KafkaAddress.embedded(bootstrap, password_file), group, topic).lead(work, asyncio.Event())


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
