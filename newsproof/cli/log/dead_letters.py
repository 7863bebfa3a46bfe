"""``newsproof dlq``: lists and requeues dead letters, which are unreadable records and failed cases.

The topic is append-only, so a requeued letter stays on it. The record that was sent carries the letter's id in a
header, which the list uses to mark the letter as sent. A command that was killed midway can be repeated: letters that
were already sent are recognised, and a record that is sent twice anyway opens nothing twice (``schemas.attempts``).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from infra.kafka.topics import NEWS_DAYS, offsets_of, read_range
from newsproof.app.invocation import Invocation, json_line, say_result, table
from newsproof.app.open_log import LogAccess, open_log
from newsproof.app.servers import say_on_stderr
from newsproof.app.terminal import bytes_of_output
from newsproof.report.demo import shortened
from schemas.attempts import RETRIES_HEADER
from schemas.errors import ConfigError, ContractError
from schemas.news import decode_news
from schemas.printable import counted

REQUEUED_FROM = "dl_requeued_from"
_OURS = "dl_"
NEWS_KEPT = timedelta(days=NEWS_DAYS)
"""Retention of ``news``. Older records are gone, and with them the knowledge of what was requeued."""


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
    requeued: bool
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


async def read_dead_letters(log: LogAccess) -> list[DeadLetter]:
    """Return every dead letter, oldest first."""
    sent = await sent_again(log)
    dead_letters: list[DeadLetter] = []
    async for tp, records in read_range(log.address, await offsets_of(log.address, log.topics.dead_letters)):
        dead_letters += [_dead_letter_of(tp.partition, record, sent) for record in records]
    return sorted(dead_letters, key=lambda dead_letter: dead_letter.at)


async def sent_again(log: LogAccess) -> set[str]:
    """Return what was requeued according to ``news``: ids of letters and of failed cases."""
    sent: set[str] = set()
    async for _, records in read_range(log.address, await offsets_of(log.address, log.topics.news)):
        for record in records:
            sent |= {
                v.decode("ascii", "replace") for k, v in record.headers if k in (REQUEUED_FROM, RETRIES_HEADER) and v
            }
    return sent


def _dead_letter_of(partition: int, record: Any, sent: set[str]) -> DeadLetter:
    said = {k: v.decode("utf-8", "replace") for k, v in record.headers if k.startswith(_OURS) and v is not None}
    letter_id = f"{partition}:{record.offset}"
    return DeadLetter(
        id=letter_id,
        reason=said.get("dl_reason", "unknown"),
        why=said.get("dl_why", ""),
        consumer=said.get("dl_consumer", ""),
        topic=said.get("dl_topic", ""),
        partition=_number(said.get("dl_partition")),
        offset=_number(said.get("dl_offset")),
        at=datetime.fromtimestamp(record.timestamp / 1000, UTC),
        requeued=letter_id in sent or said.get("dl_case") in sent,
        case=said.get("dl_case") if "dl_topic" not in said else None,
        key=record.key,
        value=record.value,
        headers=tuple((k, v) for k, v in record.headers if not k.startswith(_OURS) and v is not None),
    )


def _number(said: str | None) -> int:
    # The topic may hold anything; a header that is no valid number gives -1.
    return int(said) if said is not None and said.isascii() and said.isdigit() and len(said) < 19 else -1


def _document(dead_letter: DeadLetter) -> dict[str, Any]:
    about = {f: getattr(dead_letter, f) for f in DeadLetter.__struct_fields__ if f not in ("key", "value", "headers")}
    return about | {
        "key": None if dead_letter.key is None else dead_letter.key.decode("utf-8", "backslashreplace"),
        "value": dead_letter.preview,
        "headers": {k: v.decode("utf-8", "backslashreplace") for k, v in dead_letter.headers},
    }


# The commands


async def show_dead_letters(invocation: Invocation, *, reason: str | None, as_json: bool) -> None:
    async with open_log(invocation) as log:
        dead_letters = [one for one in await read_dead_letters(log) if reason in (None, one.reason)]
    if as_json:
        for one in dead_letters:
            json_line(_document(one))
        return
    rows = [
        (
            one.id,
            f"{one.at:%Y-%m-%d %H:%M:%S}",
            f"{one.topic} {one.partition}:{one.offset}" if one.topic else f"case {(one.case or '?')[:8]}",
            one.reason,
            one.why,
            "sent again" if one.requeued else "",
            shortened(one.preview, 50),
        )
        for one in dead_letters
    ]
    table(
        ("id", "when", "from", "reason", "why", "state", "value"),
        rows,
        title=counted(len(dead_letters), "dead letter"),
    )


async def show_dead_letter(invocation: Invocation, wanted: str, *, value_alone: bool, as_json: bool) -> None:
    """Print one letter; with ``value_alone`` only its original bytes."""
    async with open_log(invocation) as log:
        dead_letter = _named(await read_dead_letters(log), wanted)
    if value_alone:
        _print_value(dead_letter.value or b"")
    elif as_json:
        json_line(_document(dead_letter))
    else:
        for name, value in _document(dead_letter).items():
            say_result(f"{name:>10}  {value}")


def _print_value(value: bytes) -> None:
    """Write the bytes unchanged to a file or pipe, for correction and requeueing; to a terminal as printable text."""
    output = bytes_of_output()
    if output is None:
        say_result(value.decode("utf-8", "replace"))
    else:
        output.write(value)
        output.flush()


def _named(dead_letters: Sequence[DeadLetter], wanted: str) -> DeadLetter:
    found = next((one for one in dead_letters if one.id == wanted), None)
    if found is None:
        raise ConfigError(
            f"there is no dead letter {wanted!r}: `newsproof dlq list` shows the {len(dead_letters)} that there are, "
            "with ids such as 2:17"
        )
    return found


async def requeue_dead_letters(invocation: Invocation, choice: Choice, *, as_json: bool) -> None:
    """Send the chosen letters to ``news`` again.

    Raises:
        ConfigError: nothing or too much is chosen, or a letter cannot be sent again.
    """
    replacement = _replacement(choice)
    async with open_log(invocation) as log:
        chosen = _chosen(await read_dead_letters(log), choice, log.topics.news)
        producer = log.address.producer(linger_ms=5)
        await producer.start()
        try:
            for dead_letter in chosen:
                value, headers = _sent(dead_letter, replacement)
                await producer.send_and_wait(log.topics.news, value, key=_key(dead_letter, value), headers=headers)
        finally:
            await producer.stop()
    if as_json:
        json_line({"requeued": [dead_letter.id for dead_letter in chosen]})
    else:
        say_result(f"sent {len(chosen)} again: {', '.join(dead_letter.id for dead_letter in chosen) or 'none'}")


def _sent(dead_letter: DeadLetter, replacement: bytes | None) -> tuple[bytes | None, list[tuple[str, bytes]]]:
    mark = (REQUEUED_FROM, dead_letter.id.encode())
    if replacement is not None:  # other bytes are other news: they open a case of their own
        return replacement, [*((k, v) for k, v in dead_letter.headers if k != RETRIES_HEADER), mark]
    if dead_letter.case is not None:
        return dead_letter.value, [mark, (RETRIES_HEADER, dead_letter.case.encode())]
    return dead_letter.value, [*dead_letter.headers, mark]


def _replacement(choice: Choice) -> bytes | None:
    if choice.value is None:
        return None
    if len(choice.ids) != 1:
        raise ConfigError("--value replaces the bytes of one letter: name one ID with it")
    try:
        return choice.value.read_bytes()
    except OSError as exc:
        raise ConfigError(f"{choice.value} cannot be read ({exc.strerror}): name a file") from exc


def _chosen(dead_letters: Sequence[DeadLetter], choice: Choice, news: str) -> list[DeadLetter]:
    if not choice.ids and choice.reason is None and not choice.everything:
        raise ConfigError("nothing is chosen: name letters by ID, or --reason REASON, or --all")
    if choice.ids:
        chosen = [_named(dead_letters, wanted) for wanted in choice.ids]
        for dead_letter in chosen:
            _refuse(dead_letter, choice, news)
        return _one_a_case(chosen)
    able = [one for one in dead_letters if one.topic == news or one.case is not None]
    if held_back := len(dead_letters) - len(able) if choice.everything else 0:
        say_on_stderr(f"{held_back} letters do not come from {news} and cannot be sent again")
    fitting = [one for one in able if choice.reason in (None, one.reason)]
    young = [one for one in fitting if choice.again or not _too_old(one)]
    if too_old := len(fitting) - len(young):
        say_on_stderr(f"{too_old} letters are older than {news} remembers, and may have been sent before: add --again")
    return _one_a_case([one for one in young if not one.requeued or (choice.again and one.case is None)])


def _refuse(dead_letter: DeadLetter, choice: Choice, news: str) -> None:
    if dead_letter.topic != news and dead_letter.case is None:
        raise ConfigError(
            f"letter {dead_letter.id} comes from {dead_letter.topic or 'nowhere'}, whose records only the pipeline "
            "writes; only "
            f"letters from {news} and of cases that failed can be sent again. Publish the news anew instead"
        )
    if dead_letter.requeued and dead_letter.case is not None and choice.value is None:
        raise ConfigError(
            f"case {dead_letter.case} was tried again already, and once is all that a letter opens: if that attempt "
            "failed "
            "too, it left a letter of its own; --value sends other bytes"
        )
    if dead_letter.requeued and not choice.again:
        raise ConfigError(f"letter {dead_letter.id} was sent again before: add --again to send it once more")
    if _too_old(dead_letter) and not choice.again:
        raise ConfigError(f"letter {dead_letter.id} is older than {news} remembers: add --again to send it (once more)")


def _too_old(dead_letter: DeadLetter) -> bool:
    return datetime.now(UTC) - dead_letter.at > NEWS_KEPT


def _one_a_case(dead_letters: Sequence[DeadLetter]) -> list[DeadLetter]:
    # A worker that is killed between a case's letter and its terminal event leaves two letters of one case.
    seen: set[str] = set()
    return [one for one in dead_letters if one.case is None or not (one.case in seen or seen.add(one.case))]  # type: ignore[func-returns-value]


def _key(dead_letter: DeadLetter, value: bytes | None) -> bytes | None:
    try:
        return decode_news(value, now=datetime.now(UTC)).key
    except ContractError:
        return dead_letter.key
