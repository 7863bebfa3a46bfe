"""Dead letters (unreadable records and failed cases): read and requeued by ``newsproof dlq`` and the page.

The topic is append-only, so a requeued letter stays on it. The requeued record carries the letter's id in a header, by
which the list marks the letter as sent. A command that was killed midway can be repeated: it recognises letters already
sent, and a record that is sent twice anyway opens nothing twice (``schemas.news``).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import msgspec
from aiokafka import TopicPartition
from msgspec.structs import replace

from infra.kafka.topics import NEWS_DAYS, KafkaAddress, offsets_of, read_range
from infra.listeners.source import UNMARKED
from newsproof.app.servers import say_on_stderr
from schemas.errors import ConfigError, ContractError
from schemas.news import RETRIES_HEADER, decode_news
from schemas.topics import Topics

REQUEUED_FROM = "dl_requeued_from"
_OURS = "dl_"
NEWS_KEPT = timedelta(days=NEWS_DAYS)
"""Retention of ``news``. Older records are gone, and with them the marks of what was requeued."""


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """One dead letter. ``id`` is PARTITION:OFFSET on the dead-letters topic; ``case`` is the failed case, if any."""

    id: str
    reason: str
    why: str
    consumer: str
    topic: str
    partition: int
    offset: int
    at: datetime
    requeued: bool = False
    case: str | None = None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]

    @property
    def preview(self) -> str:
        """The original bytes as text; bytes that are not UTF-8 are escaped with backslashes."""
        return (self.value or b"").decode("utf-8", "backslashreplace")


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """Which letters to requeue. ``value`` is a file of replacement bytes; ``again`` allows letters requeued before."""

    ids: tuple[str, ...] = ()
    reason: str | None = None
    everything: bool = False
    value: Path | None = None
    again: bool = False


class DeadLetters:
    """The dead letters of an installation. :meth:`read` adds those written since its last call.

    ``keep_bytes``: maximum number of bytes kept of each original record, without its headers; None: the whole record.
    """

    def __init__(self, address: KafkaAddress, topics: Topics, *, keep_bytes: int | None = None) -> None:
        self._address, self._topics, self._keep_bytes = address, topics, keep_bytes
        self._letters: dict[str, DeadLetter] = {}
        self._sent: set[str] = set()
        self._next: dict[TopicPartition, int] = {}

    async def read(self) -> list[DeadLetter]:
        """Return every dead letter, oldest first.

        Raises:
            KafkaError: Kafka does not respond.
        """
        async for tp, records in _unread(self._address, self._topics.dead_letters, self._next):
            letters = [_dead_letter_of(tp.partition, record) for record in records]
            self._letters |= {letter.id: self._cut(letter) for letter in letters}
        if self._letters:  # without letters, there are no marks
            async for _, records in _unread(self._address, self._topics.news, self._next):
                self._sent |= _marks_in(records)
        marked_letters = (
            replace(letter, requeued=letter.id in self._sent or letter.case in self._sent)
            for letter in self._letters.values()
        )
        return sorted(marked_letters, key=lambda dead_letter: dead_letter.at)

    async def whole(self, letters: Sequence[DeadLetter]) -> list[DeadLetter]:
        """Return these letters with their complete original records."""
        places = [
            (int(partition), int(offset)) for partition, _, offset in (letter.id.partition(":") for letter in letters)
        ]
        wanted, spans = {letter.id: letter for letter in letters}, dict[TopicPartition, tuple[int, int]]()
        for number in {partition for partition, _ in places}:
            offsets = [offset for partition, offset in places if partition == number]
            spans[TopicPartition(self._topics.dead_letters, number)] = min(offsets), max(offsets) + 1
        async for tp, records in read_range(self._address, spans):
            whole_letters = (_dead_letter_of(tp.partition, record) for record in records)
            wanted |= {letter.id: letter for letter in whole_letters if letter.id in wanted}
        return list(wanted.values())

    async def send(self, letters: Sequence[DeadLetter], replacement: bytes | None = None) -> None:
        """Append these whole letters to ``news`` again, each with a mark that names it."""
        async with self._address.producer(linger_ms=5) as producer:
            for letter in letters:
                value, headers = _sent(letter, replacement)
                await producer.send_and_wait(self._topics.news, value, key=_key(letter, value), headers=headers)

    def _cut(self, letter: DeadLetter) -> DeadLetter:
        if self._keep_bytes is None:
            return letter
        return replace(letter, value=(letter.value or b"")[: self._keep_bytes], headers=())


class UnmarkedNews:
    """Counts news records that named a listed source without the listener's mark. :meth:`read` reads only new ones."""

    def __init__(self, address: KafkaAddress, topics: Topics) -> None:
        self._address, self._topic = address, topics.dead_letters
        self._next: dict[TopicPartition, int] = {}
        self._counts: Counter[str] = Counter()
        self._turn = asyncio.Lock()

    async def read(self) -> Mapping[str, int]:
        """Return source → number of records refused because they named it.

        Raises:
            KafkaError: Kafka does not respond.
        """
        async with self._turn:
            async for _, records in _unread(self._address, self._topic, self._next):
                for record in records:
                    if dict(record.headers).get("dl_reason") == UNMARKED.encode():
                        with contextlib.suppress(msgspec.MsgspecError):  # the topic may hold anything
                            self._counts[_source_of(record.value or b"").source] += 1
        return self._counts


async def _unread(
    address: KafkaAddress, topic: str, offsets: dict[TopicPartition, int]
) -> AsyncIterator[tuple[TopicPartition, Sequence[Any]]]:
    """Read a topic from these offsets to its ends, and advance the offsets."""
    bounds = await offsets_of(address, topic)
    spans = {tp: (max(first, offsets.get(tp, first)), end) for tp, (first, end) in bounds.items()}
    async for tp, records in read_range(address, spans):
        yield tp, records
        offsets[tp] = records[-1].offset + 1


class _NewsSource(msgspec.Struct):
    source: str


_source_of = msgspec.json.Decoder(_NewsSource).decode


def _marks_in(records: Sequence[Any]) -> set[str]:
    """Return the ids of requeued letters and failed cases that these records of ``news`` carry."""
    marks = (REQUEUED_FROM, RETRIES_HEADER)
    return {v.decode("ascii", "replace") for record in records for k, v in record.headers if k in marks and v}


def _dead_letter_of(partition: int, record: Any) -> DeadLetter:
    headers = {k: v.decode("utf-8", "replace") for k, v in record.headers if k.startswith(_OURS) and v is not None}
    return DeadLetter(
        id=f"{partition}:{record.offset}",
        reason=headers.get("dl_reason", "unknown"),
        why=headers.get("dl_why", ""),
        consumer=headers.get("dl_consumer", ""),
        topic=headers.get("dl_topic", ""),
        partition=_number(headers.get("dl_partition")),
        offset=_number(headers.get("dl_offset")),
        at=datetime.fromtimestamp(record.timestamp / 1000, UTC),
        case=headers.get("dl_case") if "dl_topic" not in headers else None,
        key=record.key,
        value=record.value,
        headers=tuple((k, v) for k, v in record.headers if not k.startswith(_OURS) and v is not None),
    )


def _number(text: str | None) -> int:
    # The topic may hold anything; a header without a valid number gives -1.
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 19 else -1


def _sent(dead_letter: DeadLetter, replacement: bytes | None) -> tuple[bytes | None, list[tuple[str, bytes]]]:
    mark = (REQUEUED_FROM, dead_letter.id.encode())
    if replacement is not None:  # other bytes are other news, and open a separate case
        return replacement, [*((k, v) for k, v in dead_letter.headers if k != RETRIES_HEADER), mark]
    if dead_letter.case is not None:
        return dead_letter.value, [mark, (RETRIES_HEADER, dead_letter.case.encode())]
    return dead_letter.value, [*dead_letter.headers, mark]


def replacement_of(choice: Choice) -> bytes | None:
    if choice.value is None:
        return None
    if len(choice.ids) != 1:
        raise ConfigError("--value replaces the bytes of one dead letter: give one ID with it")
    try:
        return choice.value.read_bytes()
    except OSError as exc:
        raise ConfigError(f"{choice.value} cannot be read ({exc.strerror}): give a readable file") from exc


def named(dead_letters: Sequence[DeadLetter], wanted: str) -> DeadLetter:
    letter = next((candidate for candidate in dead_letters if candidate.id == wanted), None)
    if letter is None:
        raise ConfigError(
            f"there is no dead letter {wanted!r}: `newsproof dlq list` shows the {len(dead_letters)} that there are, "
            "with ids such as 2:17"
        )
    return letter


def chosen_of(dead_letters: Sequence[DeadLetter], choice: Choice, news: str) -> list[DeadLetter]:
    if not choice.ids and choice.reason is None and not choice.everything:
        raise ConfigError("no dead letters chosen: give IDs, --reason REASON, or --all")
    if choice.ids:
        chosen = [named(dead_letters, wanted) for wanted in choice.ids]
        for dead_letter in chosen:
            _refuse(dead_letter, choice, news)
        return _one_a_case(chosen)
    able = [letter for letter in dead_letters if letter.topic == news or letter.case is not None]
    if held_back := len(dead_letters) - len(able) if choice.everything else 0:
        say_on_stderr(f"{held_back} dead letters do not come from {news} and cannot be sent again")
    fitting = [letter for letter in able if choice.reason in (None, letter.reason)]
    young = [letter for letter in fitting if choice.again or not _too_old(letter)]
    if too_old := len(fitting) - len(young):
        say_on_stderr(
            f"{too_old} dead letters are older than the retention of {news} and may have been sent before: add --again"
        )
    return _one_a_case([letter for letter in young if not letter.requeued or (choice.again and letter.case is None)])


Standing = Literal["waiting", "requeued", "not_news", "too_old"]
"""``not_news``: only the pipeline writes records of its topic. ``too_old``: unknown whether it was sent before."""


def standing_of(dead_letter: DeadLetter, news: str) -> Standing:
    """Return whether the letter can be requeued, or why not. ``news``: the name of that topic."""
    if dead_letter.topic != news and dead_letter.case is None:
        return "not_news"
    if dead_letter.requeued:
        return "requeued"
    return "too_old" if _too_old(dead_letter) else "waiting"


def _refuse(dead_letter: DeadLetter, choice: Choice, news: str) -> None:
    if dead_letter.topic != news and dead_letter.case is None:
        raise ConfigError(
            f"letter {dead_letter.id} comes from {dead_letter.topic or 'nowhere'}, whose records only the pipeline "
            "writes; only "
            f"letters from {news} and of cases that failed can be sent again. Publish the news again instead"
        )
    if dead_letter.requeued and dead_letter.case is not None and choice.value is None:
        raise ConfigError(
            f"case {dead_letter.case} was already retried, and a dead letter can be retried only once: if that attempt "
            "failed "
            "too, it left a letter of its own; --value sends other bytes"
        )
    if dead_letter.requeued and not choice.again:
        raise ConfigError(f"dead letter {dead_letter.id} was sent again before: add --again to send it once more")
    if _too_old(dead_letter) and not choice.again:
        raise ConfigError(
            f"dead letter {dead_letter.id} is older than the retention of {news}, so it may have been sent before: add --again to send it"
        )


def _too_old(dead_letter: DeadLetter) -> bool:
    return datetime.now(UTC) - dead_letter.at > NEWS_KEPT


def _one_a_case(dead_letters: Sequence[DeadLetter]) -> list[DeadLetter]:
    # A worker that is killed between a case's letter and its terminal event leaves two letters for one case.
    first: dict[str, DeadLetter] = {}
    for letter in dead_letters:
        first.setdefault(letter.case or letter.id, letter)
    return list(first.values())


def _key(dead_letter: DeadLetter, value: bytes | None) -> bytes | None:
    try:
        return decode_news(value, now=datetime.now(UTC)).key
    except ContractError:
        return dead_letter.key
