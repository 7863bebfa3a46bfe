"""``newsproof dlq``: the records that could not be read. The topic is append-only, so a letter that was sent again stays;
the record that was sent carries its id in a header, which is how the list knows."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from infra.kafka import offsets_of, read_range
from newsproof.invocation import Invocation, json_line, say_result, table
from newsproof.reading import Log, the_log
from newsproof.report import shortened
from newsproof.servers import say_on_stderr
from schemas.errors import ConfigError, ContractError
from schemas.news import decode_news

REQUEUED_FROM = "dl_requeued_from"
_OURS = "dl_"


class Letter(msgspec.Struct, frozen=True, kw_only=True):
    """One dead letter. ``id`` is PARTITION:OFFSET on the dead-letters topic."""

    id: str
    reason: str
    why: str
    consumer: str
    topic: str
    partition: int
    offset: int
    at: datetime
    requeued: bool
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]

    @property
    def preview(self) -> str:
        """The original bytes as text, where they are text."""
        return (self.value or b"").decode("utf-8", "backslashreplace")


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """Which letters to send again, and how."""

    ids: tuple[str, ...] = ()
    reason: str | None = None
    everything: bool = False
    value: Path | None = None
    again: bool = False


async def read_letters(log: Log) -> list[Letter]:
    """Return every dead letter, oldest first."""
    sent = await _sent_again(log)
    letters: list[Letter] = []
    async for tp, records in read_range(log.address, await offsets_of(log.address, log.topics.dead_letters)):
        letters += [_letter(tp.partition, record, sent) for record in records]
    return sorted(letters, key=lambda letter: letter.at)


async def _sent_again(log: Log) -> set[str]:
    sent: set[str] = set()
    async for _, records in read_range(log.address, await offsets_of(log.address, log.topics.news)):
        for record in records:
            sent |= {v.decode("ascii", "replace") for k, v in record.headers if k == REQUEUED_FROM and v}
    return sent


def _letter(partition: int, record: Any, sent: set[str]) -> Letter:
    said = {k: v.decode("utf-8", "replace") for k, v in record.headers if k.startswith(_OURS) and v is not None}
    letter_id = f"{partition}:{record.offset}"
    return Letter(
        id=letter_id,
        reason=said.get("dl_reason", "unknown"),
        why=said.get("dl_why", ""),
        consumer=said.get("dl_consumer", ""),
        topic=said.get("dl_topic", ""),
        partition=_number(said.get("dl_partition")),
        offset=_number(said.get("dl_offset")),
        at=datetime.fromtimestamp(record.timestamp / 1000, UTC),
        requeued=letter_id in sent,
        key=record.key,
        value=record.value,
        headers=tuple((k, v) for k, v in record.headers if not k.startswith(_OURS) and v is not None),
    )


def _number(said: str | None) -> int:
    # Anything may stand on the topic; a letter that names no offset has none.
    return int(said) if said is not None and said.isascii() and said.isdigit() and len(said) < 19 else -1


def _document(letter: Letter) -> dict[str, Any]:
    about = {f: getattr(letter, f) for f in Letter.__struct_fields__ if f not in ("key", "value", "headers")}
    return about | {
        "key": None if letter.key is None else letter.key.decode("utf-8", "backslashreplace"),
        "value": letter.preview,
        "headers": {k: v.decode("utf-8", "backslashreplace") for k, v in letter.headers},
    }


# The commands


async def show_letters(invocation: Invocation, *, reason: str | None, as_json: bool) -> None:
    """Print the letters."""
    async with the_log(invocation) as log:
        letters = [one for one in await read_letters(log) if reason in (None, one.reason)]
    if as_json:
        for one in letters:
            json_line(_document(one))
        return
    rows = [
        (
            one.id,
            f"{one.at:%Y-%m-%d %H:%M:%S}",
            f"{one.topic} {one.partition}:{one.offset}" if one.topic else "a case that failed",
            one.reason,
            one.why,
            "sent again" if one.requeued else "",
            shortened(one.preview, 50),
        )
        for one in letters
    ]
    table(("id", "when", "from", "reason", "why", "state", "value"), rows, title=f"{len(letters)} dead letters")


async def show_letter(invocation: Invocation, wanted: str, *, value_alone: bool, as_json: bool) -> None:
    """Print one letter."""
    async with the_log(invocation) as log:
        letter = _named(await read_letters(log), wanted)
    if value_alone:
        sys.stdout.buffer.write(letter.value or b"")
        sys.stdout.buffer.flush()
    elif as_json:
        json_line(_document(letter))
    else:
        for name, value in _document(letter).items():
            say_result(f"{name:>10}  {value}")


def _named(letters: Sequence[Letter], wanted: str) -> Letter:
    found = next((one for one in letters if one.id == wanted), None)
    if found is None:
        raise ConfigError(
            f"there is no dead letter {wanted!r}: `newsproof dlq list` shows the {len(letters)} that there are, "
            "with ids such as 2:17"
        )
    return found


async def requeue_letters(invocation: Invocation, choice: Choice, *, as_json: bool) -> None:
    """Send letters to ``news`` again.

    Raises:
        ConfigError: nothing or too much is chosen, or a letter cannot be sent again.
    """
    replacement = _replacement(choice)
    async with the_log(invocation) as log:
        chosen = _chosen(await read_letters(log), choice, log.topics.news)
        producer = log.address.producer(linger_ms=5)
        await producer.start()
        try:
            for letter in chosen:
                value = letter.value if replacement is None else replacement
                headers = [*letter.headers, (REQUEUED_FROM, letter.id.encode())]
                await producer.send_and_wait(log.topics.news, value, key=_key(letter, value), headers=headers)
        finally:
            await producer.stop()
    if as_json:
        json_line({"requeued": [letter.id for letter in chosen]})
    else:
        say_result(f"sent {len(chosen)} again: {', '.join(letter.id for letter in chosen) or 'none'}")


def _replacement(choice: Choice) -> bytes | None:
    if choice.value is None:
        return None
    if len(choice.ids) != 1:
        raise ConfigError("--value replaces the bytes of one letter: name one ID with it")
    try:
        return choice.value.read_bytes()
    except OSError as exc:
        raise ConfigError(f"{choice.value} cannot be read ({exc.strerror}): name a file") from exc


def _chosen(letters: Sequence[Letter], choice: Choice, news: str) -> list[Letter]:
    if not choice.ids and choice.reason is None and not choice.everything:
        raise ConfigError("nothing is chosen: name letters by ID, or --reason REASON, or --all")
    if choice.ids:
        chosen = [_named(letters, wanted) for wanted in choice.ids]
        for letter in chosen:
            if letter.topic != news:
                raise ConfigError(
                    f"letter {letter.id} comes from {letter.topic or 'a case that failed'}, whose records only the pipeline writes; only letters "
                    f"from {news} can be sent again. Publish the news anew instead, with a corrected text"
                )
            if letter.requeued and not choice.again:
                raise ConfigError(f"letter {letter.id} was sent again before: add --again to send it once more")
        return chosen
    fitting = [one for one in letters if one.topic == news and choice.reason in (None, one.reason)]
    if held_back := len(letters) - len(fitting) if choice.everything else 0:
        say_on_stderr(f"{held_back} letters do not come from {news} and cannot be sent again")
    return [one for one in fitting if choice.again or not one.requeued]


def _key(letter: Letter, value: bytes | None) -> bytes | None:
    try:
        return decode_news(value, now=datetime.now(UTC)).key
    except ContractError:
        return letter.key
