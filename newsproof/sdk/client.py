"""The SDK: ``publish`` for listeners, ``subscribe`` for bots. Plain Kafka clients; no runtime, no Faust.

The Kafka address is the ``kafka`` argument, else ``KAFKA_BOOTSTRAP_SERVERS`` and the other settings of the
environment, else the embedded server that ``newsproof up`` runs on this machine.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import OrderedDict
from collections.abc import AsyncIterable, AsyncIterator, Collection, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from heapq import merge
from typing import Any, Literal, get_args

import msgspec
import orjson
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from infra.client_settings import ClientSettings, load_client_settings
from infra.kafka.topics import KafkaAddress, partitions_of
from infra.listeners.source import own_file, refuse_listed, sources_of
from newsproof.app import exits
from schemas.envelope import NewerSignalError, read_signal
from schemas.errors import ConfigError, ContractError, NewsproofError
from schemas.news import MAX_RECORD_BYTES, NOT_LIVE_FLAGS, News, decode_news
from schemas.printable import counted, printable_line
from schemas.signals import ACTED_ON, EXPIRED, NO_ASSET, WITHDRAWN, Action, Signal, Verdict
from schemas.topics import Topics

__all__ = ["PublishReport", "checked_news", "publish", "run_bot", "running_kafka_of", "subscribe"]

log = logging.getLogger(__name__)
"""Not structlog: the bot's process configures that itself, and its default writes to standard output."""
heartbeat = logging.getLogger("newsproof.heartbeat")
HEARTBEAT_S = 60.0
"""Seconds between two lines of :func:`subscribe` about what arrived, so that a quiet bot is not taken for a dead one."""

ORDERS: tuple[Action, ...] = ("buy", "sell")


_REMEMBERED = 100_000
"""Signals whose latest revision is remembered, to ignore earlier ones that arrive again."""


class PublishReport(msgspec.Struct, kw_only=True):
    """Result of :func:`publish`. ``refused`` holds (position, reason code, what to change) of each item not sent."""

    published: int = 0
    refused: list[tuple[int, str, str]] = []


async def running_kafka_of(settings: ClientSettings) -> KafkaAddress | None:
    """Return the configured Kafka, else the embedded one running on the data directory (or the demo's), else None."""
    if settings.kafka_bootstrap_servers:
        return KafkaAddress.of(settings, settings.kafka_bootstrap_servers)
    from newsproof.app.servers import DEMO, password_file, running_kafka

    for directory in (settings.data_dir, settings.data_dir / DEMO):
        if (bootstrap := await running_kafka(directory / "kafka")) is not None:
            return KafkaAddress.embedded(bootstrap, password_file(directory / "kafka"))
    return None


# Publishing


def checked_news(
    item: News | Mapping[str, Any] | bytes, *, now: datetime, listed: Collection[str] | None = None
) -> tuple[News, bytes]:
    """Return an item as intake reads it, and the bytes to send.

    ``listed``: ids of sources whose news only the listener publishes; None: the shipped sources.

    Raises:
        ContractError: intake would refuse it; the text says what to change.
    """
    if isinstance(item, News):
        # Unknown fields return to the top of the object, where they came from.
        known = {name: value for name, value in msgspec.to_builtins(item).items() if name != "unknown"}
        value = msgspec.json.encode({**item.unknown, **known})
    else:
        value = item if isinstance(item, bytes) else msgspec.json.encode(item)
    news = decode_news(value, now=now)
    refuse_listed(news.source, sources_of(None) if listed is None else listed)
    return news, value


class NewsItem(msgspec.Struct, frozen=True):
    """One record of ``news``. ``dated_now``: the line had no ``published_at``, so the current time was set.

    ``case_id``: its case; empty for an unchecked record.
    """

    key: bytes | None
    value: bytes
    dated_now: bool = False
    case_id: str = ""


def item_of(line: bytes, *, source: str, now: datetime, listed: Collection[str] | None = None) -> NewsItem:
    """Return the record for one line: a JSON object, which may leave out ``source`` and ``published_at``, or plain text.

    ``listed``: as for :func:`checked_news`.

    Raises:
        ContractError: intake would refuse it; the text says what to change.
    """
    value = line.strip()
    dated_now = False
    fields = _fields(value, source) if len(value) <= 2 * MAX_RECORD_BYTES else None
    if fields is not None and (missing := [name for name in ("source", "published_at") if fields.get(name) is None]):
        fields |= {"source": source} if "source" in missing else {}
        if dated_now := "published_at" in missing:
            fields["published_at"] = now
            fields.setdefault("received_at", now)
        value = orjson.dumps(fields)
    news, value = checked_news(value, now=now, listed=listed)
    return NewsItem(news.key, value, dated_now, news.case_id)


def _fields(line: bytes, source: str) -> dict[str, Any] | None:
    """Return the fields of an object or of a plain line; None if the check must refuse it unchanged."""
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        if line.startswith(b"{"):
            return None
        try:
            return {"source": source, "text": line.decode("utf-8")}
        except UnicodeDecodeError as exc:
            raise ContractError(f"not UTF-8 (byte {exc.start}): encode it as UTF-8", reason="not_utf8") from exc
    return value if isinstance(value, dict) else None


async def publish(
    items: Iterable[News | Mapping[str, Any] | bytes] | AsyncIterable[News | Mapping[str, Any] | bytes],
    *,
    kafka: KafkaAddress | str | None = None,
    prefix: str | None = None,
) -> PublishReport:
    """Check items and send them to ``news``; return when the last one is durable.

    An item is a :class:`News`, a mapping of its fields, or the bytes of a JSON object. An item that intake would
    refuse, or whose ``source`` is a listed source's id, is not sent but reported. Sending an item again is harmless: it
    opens one case.

    Raises:
        ConfigError, TransientError: no Kafka is known, or it does not respond; the list of sources cannot be read.
    """
    settings = load_client_settings()
    address = await address_of(kafka, settings)
    topic = Topics(settings.newsproof_topic_prefix if prefix is None else prefix).news
    listed, report = sources_of(own_file(settings)), PublishReport()
    async with _started(address.producer(linger_ms=5), address) as producer:
        sent = []
        position = 0
        async for item in _each(items):
            try:
                news, value = checked_news(item, now=datetime.now(UTC), listed=listed)
            except ContractError as exc:
                report.refused.append((position, exc.reason, str(exc)))
            else:
                sent.append(await producer.send(topic, value, key=news.key))
                report.published += 1
            position += 1
        for delivery in sent:
            await delivery
    return report


# Subscribing


async def subscribe(
    *,
    verdicts: Collection[Verdict] | None = ACTED_ON,
    actions: Collection[Action] | None = ORDERS,
    preliminary: bool = False,
    assets: Collection[str] = (),
    min_confidence: float = 0.0,
    group: str | None = None,
    start: Literal["latest", "earliest"] = "latest",
    kafka: KafkaAddress | str | None = None,
    prefix: str | None = None,
) -> AsyncIterator[Signal]:
    """Yield signals until cancelled, in the order of publication within a partition and within one fetch.

    By default these are the final signals to act on: verdict ``confirmed`` or ``likely``, an asset, action ``buy`` or
    ``sell``; and every retraction. ``verdicts`` and ``actions`` select others; None means all. Signals from before
    verdicts were introduced have None as verdict, or one that allows no order: only ``verdicts=None`` yields those with
    None. With ``actions``, orders without an asset are skipped, as are orders on news that a listener received too late
    or fetched from the past on request (risk flag ``late`` or ``backfilled``), and orders on news that was older than
    their horizon when they were decided (``expired``).

    Yields only signals that publish wrote in a committed transaction; other records are ignored and logged. Within
    one iteration no revision of a signal comes twice or after a later one (for the last 100,000 signals).

    Without ``group`` no progress is stored: every iteration begins at ``start``. With a ``group`` the progress is
    committed when the *next* signal is requested, so delivery is at least once: after a crash the signal in progress
    comes again. Use ``signal_id`` and ``revision`` as idempotency key. ``start`` then applies only to a new group.

    ``preliminary``: also yield the first judgement of a signal, where the installation publishes it
    (``PUBLISH_PRELIMINARY``), whatever its verdict and action: unchecked, as revision 1 with the stage ``preliminary``.
    The final signal follows as the next revision. ``assets`` such as ``{"BTC"}``; empty = all. ``min_confidence`` is
    0–1. Signals whose ``provider_mode`` is not live are for testing.

    A caller who received a revision of a signal receives every later one, whatever its verdict and confidence, so that
    nobody continues to trade on a retracted signal. Retractions (stage ``retracted`` or ``superseded``, action
    ``observe``) of signals that this iteration has not seen are yielded, too, because an earlier iteration may have
    yielded them; ignore those of signals that you do not hold. Retractions are omitted only for signals that this
    iteration saw and filtered out, and for other ``assets``.

    The logger ``newsproof.heartbeat`` reports each minute how many signals arrived (level INFO).

    Raises:
        ConfigError: an unknown verdict or action, or no Kafka is known. TransientError: it does not respond.
        ContractError: a signal of a newer schema than this package knows.
    """
    settings = load_client_settings()
    address = await address_of(kafka, settings)
    topics = Topics(settings.newsproof_topic_prefix if prefix is None else prefix)
    wanted = _SignalFilter(verdicts, actions, preliminary, assets, min_confidence)
    async with _consumer(address, topics, group, start) as consumer:
        log.info("connected to %s, waiting for signals", address.bootstrap)
        now = asyncio.get_running_loop().time
        reported_at = now()
        while True:
            if now() - reported_at >= HEARTBEAT_S:
                reported_at = now()
                heartbeat.info("%s", wanted.arrived())
            fetched = await consumer.getmany(timeout_ms=1000)
            for record in merge(*fetched.values(), key=lambda record: record.timestamp):
                if (signal := wanted.read(record)) is None:
                    continue
                yield signal
                if group is not None:
                    await consumer.commit({TopicPartition(record.topic, record.partition): record.offset + 1})
            if group is not None and fetched:
                await consumer.commit({tp: records[-1].offset + 1 for tp, records in fetched.items()})


def run_bot(bot: Coroutine[Any, Any, None]) -> None:
    """Run a bot like ``asyncio.run``, but end with one line at Ctrl-C, and where Newsproof raises an error.

    If the process has set up no logging, what the SDK reports goes to standard error: that it is connected, and each
    minute how many signals arrived.

    Raises:
        SystemExit: 130 at Ctrl-C; 2 for wrong settings or without a Kafka, 3 if Kafka does not respond.
    """
    if not logging.root.handlers:
        logging.basicConfig(format="%(message)s")
        logging.getLogger("newsproof").setLevel(logging.INFO)
    try:
        asyncio.run(bot)
    except (KeyboardInterrupt, NewsproofError) as exc:
        stopped = isinstance(exc, KeyboardInterrupt)
        print("stopped by Ctrl-C" if stopped else printable_line(str(exc)), file=sys.stderr, flush=True)
        raise SystemExit(exits.status_of(exc)) from None


class _SignalFilter:
    """Filter of the signals to yield."""

    def __init__(
        self,
        verdicts: Collection[Verdict] | None,
        actions: Collection[Action] | None,
        preliminary: bool,
        assets: Collection[str],
        min_confidence: float,
    ) -> None:
        self._verdicts = _words("verdicts", verdicts, get_args(Verdict))
        self._actions = _words("actions", actions, get_args(Action))
        self._preliminary = preliminary
        self._assets = frozenset(a.upper() for a in assets)
        self._min_confidence = min_confidence
        self._newest: OrderedDict[str, tuple[int, bool]] = OrderedDict()
        self.ignored = 0
        self._arrived = self._given = self._offline = 0

    def arrived(self) -> str:
        """Return how many signals were read and yielded since the last call."""
        message = f"in the last {HEARTBEAT_S:.0f} s: {counted(self._arrived, 'signal')}, {self._given} for this bot"
        if self._offline:
            message += f", {self._offline} of them offline (judged by rules: never trade on them)"
        self._arrived = self._given = self._offline = 0
        return message

    def read(self, record: Any) -> Signal | None:
        """Return the signal; None if it is not wanted, no newer than a revision already seen, or not a signal."""
        try:
            signal, _ = read_signal(record)
        except NewerSignalError:
            raise
        except ContractError as exc:
            self.ignored += 1
            if self.ignored & (self.ignored - 1) == 0:  # the 1st, 2nd, 4th …: a flood must not fill the bot's log
                log.warning(
                    "ignored a record on the signals topic (%d so far): %s", self.ignored, printable_line(str(exc))
                )
            return None
        known = self._newest.get(signal.signal_id)
        if known is not None and signal.revision <= known[0]:
            return None
        given = self._fits(signal, None if known is None else known[1])
        self._newest[signal.signal_id] = signal.revision, given
        self._newest.move_to_end(signal.signal_id)
        self._arrived += 1
        self._given += given
        self._offline += given and signal.provider_mode != "live"
        if len(self._newest) > _REMEMBERED:
            self._newest.popitem(last=False)
        return signal if given else None

    def _fits(self, signal: Signal, given: bool | None) -> bool:
        """Return whether to yield it. ``given``: an earlier revision was yielded; None if none was seen."""
        if given:
            return True
        if self._assets and signal.asset.upper() not in self._assets:
            return False
        if signal.stage in WITHDRAWN:
            return given is None
        if signal.confidence < self._min_confidence:
            return False
        return self._preliminary if signal.stage == "preliminary" else self._asked_for(signal)

    def _asked_for(self, signal: Signal) -> bool:
        if self._verdicts is not None and signal.verdict not in self._verdicts:
            return False
        if self._actions is None:
            return True
        if signal.action not in ORDERS:
            return signal.action in self._actions
        is_live = (NOT_LIVE_FLAGS | {EXPIRED}).isdisjoint(signal.risk_flags)
        return signal.action in self._actions and signal.asset != NO_ASSET and is_live


def _words(argument: str, given: Collection[str] | None, known: tuple[str, ...]) -> frozenset[str] | None:
    if given is None:
        return None
    words = frozenset({given} if isinstance(given, str) else given)
    if unknown := sorted(words.difference(known)):
        raise ConfigError(
            f"subscribe: {argument} holds {', '.join(unknown)}; write some of {', '.join(known)}, or None"
        )
    return words


# Connections


async def address_of(kafka: KafkaAddress | str | None, settings: ClientSettings) -> KafkaAddress:
    """Return the Kafka that a caller names, else the configured or running one.

    Raises:
        ConfigError: none is configured, and none runs here.
    """
    if isinstance(kafka, KafkaAddress):
        return kafka
    if kafka is not None:
        return KafkaAddress.of(settings, kafka)
    if (address := await running_kafka_of(settings)) is None:
        raise ConfigError(
            f"no Kafka is configured and none runs in {settings.newsproof_data_dir}: start `newsproof up` first (in a "
            "checkout: `./run up`), or set KAFKA_BOOTSTRAP_SERVERS"
        )
    return address


@asynccontextmanager
async def _started(client: Any, address: KafkaAddress) -> AsyncIterator[Any]:
    try:
        await client.start()
    except (KafkaError, OSError) as exc:
        await client.stop()
        raise await address.why_not(exc) from exc
    try:
        yield client
    finally:
        await client.stop()


@asynccontextmanager
async def _consumer(address: KafkaAddress, topics: Topics, group: str | None, start: str) -> AsyncIterator[Any]:
    more: dict[str, Any] = {"isolation_level": "read_committed", "auto_offset_reset": start, "fetch_max_wait_ms": 100}
    if group is not None:
        more["group_id"] = topics.group(f"bot.{group}")
    async with _started(address.consumer(**more), address) as consumer:
        if group is not None:
            consumer.subscribe([topics.signals])
        else:
            tps = [TopicPartition(topics.signals, p) for p in await partitions_of(consumer, topics.signals)]
            if not tps:
                raise ConfigError(
                    f"there is no topic {topics.signals} at {address.bootstrap}: start `newsproof up`, or create it with "
                    "`newsproof topics create`, or correct NEWSPROOF_TOPIC_PREFIX"
                )
            consumer.assign(tps)
            await (consumer.seek_to_end(*tps) if start == "latest" else consumer.seek_to_beginning(*tps))
        yield consumer


async def _each(items: Iterable[Any] | AsyncIterable[Any]) -> AsyncIterator[Any]:
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item
