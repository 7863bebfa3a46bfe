"""The metrics from the log, and on the log: the topic ``reputation`` has a record for each source and language, at most
a day old while a listener runs. No decision uses them.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import msgspec

from infra.kafka.topics import KafkaAddress
from infra.late_log import log_of
from schemas import envelope as wire
from schemas.envelope import NewerSignalError, read_signal
from schemas.errors import ContractError
from schemas.events import OPENING_NAME, WIRE_NAMES, CaseDropped, RetractionFound
from schemas.topics import Topics
from streams.journal.clock import appended_at, utc_now
from streams.journal.log import KafkaLog, Log, starts_since
from streams.journal.reader import JournalReader
from streams.journal.retry import is_away
from streams.reputation.fold import WINDOW, Reputation, ReputationFold

EVERY = timedelta(days=1)
_FOLDED = frozenset({OPENING_NAME, WIRE_NAMES[CaseDropped], WIRE_NAMES[RetractionFound]})
_decode = msgspec.json.Decoder(Reputation).decode
Key = tuple[str, str]
"""Source and language."""


async def compute_reputations(of: Log, topics: Topics, as_of: datetime) -> list[Reputation]:
    """Return the metrics of the journal's last ``WINDOW``. Records that do not decode (quarantined cases) are skipped.

    Raises:
        NewerSchemaError, NewerSignalError: a newer version wrote a record.
        KafkaError: the broker does not respond.
    """
    fold, since_ms = ReputationFold(), round((as_of - WINDOW).timestamp() * 1000)
    reader = JournalReader(of, topics.cases)
    parts = await reader.begin(await starts_since(of, topics.cases, since_ms))
    async for tp, records in reader.replay(parts):
        for env, record in parts[tp].accept(records):
            if env.type in _FOLDED:
                try:
                    event = wire.decode(env.type, env.version, record.value)
                except wire.NewerSchemaError:
                    raise
                except ContractError:
                    continue
                fold.take(env.case_id, event, appended_at(record))
    starts = await starts_since(of, topics.signals, since_ms)
    ends = await of.bounds(topics.signals, isolation="read_committed")
    spans = {tp: (starts.get(tp, first), end) for tp, (first, end) in ends.items()}
    async for _, records in of.replay(spans, isolation="read_committed"):
        for record in records:
            try:
                fold.publish(read_signal(record)[0])
            except NewerSignalError:
                raise
            except ContractError:
                continue
    return await asyncio.to_thread(fold.reputations, as_of)  # a second for 50,000 cases; polls continue meanwhile


async def read_reputations(of: Log, topics: Topics) -> dict[Key, Reputation]:
    """Return the contents of the topic. Records that do not decode are ignored."""
    reputations: dict[Key, Reputation] = {}
    async for _, records in of.replay(await of.bounds(topics.reputation)):
        for record in records:
            source, _, language = (record.key or b"").decode("utf-8", "replace").partition("\x1f")
            reputations.pop((source, language), None)
            try:
                reputations[source, language] = _decode(record.value or b"")
            except msgspec.MsgspecError:
                continue
    return reputations


async def write_reputations_daily(address: KafkaAddress, topics: Topics) -> None:
    """Write the metrics each day, for as long as this runs: at once if the topic's are older.

    Raises:
        KafkaError: the broker is unavailable. Any other error is logged, and the next attempt follows after a day.
    """
    of = KafkaLog(address, client_id="newsproof-reputation")
    last = min((reputation.as_of for reputation in (await read_reputations(of, topics)).values()), default=None)
    while True:
        if last is not None:
            await asyncio.sleep((last + EVERY - utc_now()).total_seconds())
        last = utc_now()
        try:
            await write_reputations(of, address, topics, last)
        except Exception as exc:
            if is_away(exc):
                raise
            log_of(__name__).exception("the reputation of sources was not written; the next attempt is tomorrow")


async def write_reputations(of: Log, address: KafkaAddress, topics: Topics, as_of: datetime) -> None:
    """Fold the metrics and write them. A source that reported nothing in the window gets a tombstone."""
    reputations = {
        (reputation.source, reputation.language): reputation
        for reputation in await compute_reputations(of, topics, as_of)
    }
    gone = (await read_reputations(of, topics)).keys() - reputations.keys()
    values = {key: msgspec.json.encode(reputation) for key, reputation in reputations.items()} | dict.fromkeys(gone)
    producer = address.producer(linger_ms=0)
    await producer.start()
    try:
        sent = [await producer.send(topics.reputation, v, key="\x1f".join(key).encode()) for key, v in values.items()]
        await asyncio.gather(*sent)
    finally:
        await producer.stop()
    log_of(__name__).info("the reputation of sources was written", sources=len(reputations), gone=len(gone))
