"""The ledger: which offset may be committed. Faust's own acknowledgements are bypassed, for they lose records.

Measured on Faust 0.15.3 (``faust/transport/consumer.py``): ``_new_offset`` compares with ``> 1``, has no guard for a fresh
group, drops its ledger on revoke, and counts failed commits as done. Here the runtime says what is safe, per partition,
and the consumer commits that and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import faust
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread
from faust.transport.drivers.aiokafka import Consumer as FaustConsumer
from faust.transport.drivers.aiokafka import Transport as FaustTransport
from faust.types import TP

SafeOffset = Callable[[str, int], int | None]
"""(topic, partition) → the offset that may be committed now, None while nothing is known of that partition."""


FETCH_MAX_WAIT_MS = 25
"""aiokafka has one fetch a broker under way, and leaves partitions with unread records out of it: while such a fetch waits
at the broker for other partitions, those are not read. Faust's fixed 1,500 ms was measured to stall the journal for over
a second at a time under load; an idle worker pays 40 small requests a second for 25 ms."""


class LedgerConsumerThread(AIOKafkaConsumerThread):  # type: ignore[misc]
    """Faust's consumer thread with short waits at the broker."""

    def _create_worker_consumer(self, transport: Any) -> Any:
        consumer = super()._create_worker_consumer(transport)
        consumer._fetch_max_wait_ms = FETCH_MAX_WAIT_MS
        return consumer


class LedgerConsumer(FaustConsumer):  # type: ignore[misc]
    """Commits the offsets that the app's ``safe_offset`` names; acknowledgements are never asked."""

    def _new_consumer_thread(self) -> LedgerConsumerThread:
        return LedgerConsumerThread(self, loop=self.loop, beacon=self.beacon)

    def _filter_tps_with_pending_acks(self, topics: Any = None) -> Iterator[TP]:
        return (tp for tp in list(self.assignment()) if topics is None or tp in topics or tp.topic in topics)

    def _new_offset(self, tp: TP) -> int | None:
        return self.app.safe_offset(tp.topic, tp.partition)  # type: ignore[no-any-return]

    def _should_commit(self, tp: TP, offset: int) -> bool:
        committed = self._committed_offset[tp]
        return offset > 0 if committed is None else offset > committed


class LedgerTransport(FaustTransport):  # type: ignore[misc]
    """The aiokafka transport with the ledger's consumer."""

    Consumer = LedgerConsumer


class LedgerApp(faust.App):  # type: ignore[misc]
    """A Faust app that commits by the ledger. ``safe_offset`` is set before it starts."""

    safe_offset: SafeOffset

    def _new_transport(self) -> Any:
        return LedgerTransport(self.conf.broker_consumer, self)
