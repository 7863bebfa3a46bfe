"""The lease of a run: one process per run across all data directories, since two would pay for everything twice."""

from __future__ import annotations

import asyncio

from infra.kafka.topics import KafkaAddress, members_of
from newsproof.app.servers import say_on_stderr
from schemas.errors import ConfigError, TransientError
from streams.lease import Lease

SESSION_S = 30.0
"""Session timeout: the lease of a killed process, or of one too busy to send heartbeats, expires after this time."""
PATIENCE_S = 15.0
"""Additional time for joining the group."""


class RunLease(Lease):
    """The lease of a run, which the one process waits for that was told to work on it."""

    def __init__(
        self, address: KafkaAddress, topic: str, run_id: str, *, group: str, session_s: float = SESSION_S
    ) -> None:
        """``topic`` exists and has one partition; no other run uses ``group``."""
        super().__init__(address, group, topic, session_s=session_s)
        self._run_id, self._within_s, self._said = run_id, session_s + PATIENCE_S, False

    async def take_in_time(self) -> None:
        """Take the lease.

        Raises:
            ConfigError: another process keeps it.
            TransientError: nobody keeps it, and Kafka does not assign it.
        """
        try:
            async with asyncio.timeout(self._within_s):
                await self.take(waiting=self._say)
        except TimeoutError as exc:
            await self.leave()
            if not await members_of(self._address, self._group):
                why = f" ({self.error})" if self.error else ""
                raise TransientError(
                    f"Kafka did not assign the run {self._run_id} to this process within {self._within_s:g} s{why}, though no "
                    "other has it: check the broker, and start the run again",
                    kind="unavailable",
                ) from exc
            raise ConfigError(
                f"another process works on the run {self._run_id}: let it, or give this one a --run-id of its own"
            ) from exc

    def _say(self) -> None:
        if not self._said:
            session_s = self._within_s - PATIENCE_S
            say_on_stderr(
                f"Another process works on the run {self._run_id}, or was killed less than {session_s:g} s ago; waiting."
            )
        self._said = True
