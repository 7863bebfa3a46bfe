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
from newsproof.app.open_log import LogAccess, the_log
from newsproof.app.servers import say_on_stderr
from newsproof.app.terminal import bytes_of_output
from newsproof.report.demo import shortened
from schemas.attempts import RETRIES_HEADER
from schemas.errors import ConfigError, ContractError
from schemas.news import decode_news

REQUEUED_FROM = "dl_requeued_from"
_OURS = "dl_"
NEWS_KEPT = timedelta(days=NEWS_DAYS)
"""Retention of ``news``. Older records are gone, and with them the knowledge of what was requeued."""


class Letter(msgspec.Struct, frozen=True, kw_only=True):
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


async def read_letters(log: LogAccess) -> list[Letter]:
    """Return every dead letter, oldest first."""
    sent = await sent_again(log)
    letters: list[Letter] = []
    async for tp, records in read_range(log.address, await offsets_of(log.address, log.topics.dead_letters)):
        letters += [_letter(tp.partition, record, sent) for record in records]
    return sorted(letters, key=lambda letter: letter.at)


async def sent_again(log: LogAccess) -> set[str]:
    """Return what was requeued according to ``news``: ids of letters and of failed cases."""
    sent: set[str] = set()
    async for _, records in read_range(log.address, await offsets_of(log.address, log.topics.news)):
        for record in records:
            sent |= {
                v.decode("ascii", "replace") for k, v in record.headers if k in (REQUEUED_FROM, RETRIES_HEADER) and v
            }
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
        requeued=letter_id in sent or said.get("dl_case") in sent,
        case=said.get("dl_case") if "dl_topic" not in said else None,
        key=record.key,
        value=record.value,
        headers=tuple((k, v) for k, v in record.headers if not k.startswith(_OURS) and v is not None),
    )


def _number(said: str | None) -> int:
    # The topic may hold anything; a header that is no valid number gives -1.
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
            f"{one.topic} {one.partition}:{one.offset}" if one.topic else f"case {(one.case or '?')[:8]}",
            one.reason,
            one.why,
            "sent again" if one.requeued else "",
            shortened(one.preview, 50),
        )
        for one in letters
    ]
    table(("id", "when", "from", "reason", "why", "state", "value"), rows, title=f"{len(letters)} dead letters")


async def show_letter(invocation: Invocation, wanted: str, *, value_alone: bool, as_json: bool) -> None:
    """Print one letter; with ``value_alone`` only its original bytes."""
    async with the_log(invocation) as log:
        letter = _named(await read_letters(log), wanted)
    if value_alone:
        _print_value(letter.value or b"")
    elif as_json:
        json_line(_document(letter))
    else:
        for name, value in _document(letter).items():
            say_result(f"{name:>10}  {value}")


def _print_value(value: bytes) -> None:
    """Write the bytes unchanged to a file or pipe, for correction and requeueing; to a terminal as printable text."""
    output = bytes_of_output()
    if output is None:
        say_result(value.decode("utf-8", "replace"))
    else:
        output.write(value)
        output.flush()


def _named(letters: Sequence[Letter], wanted: str) -> Letter:
    found = next((one for one in letters if one.id == wanted), None)
    if found is None:
        raise ConfigError(
            f"there is no dead letter {wanted!r}: `newsproof dlq list` shows the {len(letters)} that there are, "
            "with ids such as 2:17"
        )
    return found


async def requeue_letters(invocation: Invocation, choice: Choice, *, as_json: bool) -> None:
    """Send the chosen letters to ``news`` again.

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
                value, headers = _sent(letter, replacement)
                await producer.send_and_wait(log.topics.news, value, key=_key(letter, value), headers=headers)
        finally:
            await producer.stop()
    if as_json:
        json_line({"requeued": [letter.id for letter in chosen]})
    else:
        say_result(f"sent {len(chosen)} again: {', '.join(letter.id for letter in chosen) or 'none'}")


def _sent(letter: Letter, replacement: bytes | None) -> tuple[bytes | None, list[tuple[str, bytes]]]:
    mark = (REQUEUED_FROM, letter.id.encode())
    if replacement is not None:  # other bytes are other news: they open a case of their own
        return replacement, [*((k, v) for k, v in letter.headers if k != RETRIES_HEADER), mark]
    if letter.case is not None:
        return letter.value, [mark, (RETRIES_HEADER, letter.case.encode())]
    return letter.value, [*letter.headers, mark]


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
            _refuse(letter, choice, news)
        return _one_a_case(chosen)
    able = [one for one in letters if one.topic == news or one.case is not None]
    if held_back := len(letters) - len(able) if choice.everything else 0:
        say_on_stderr(f"{held_back} letters do not come from {news} and cannot be sent again")
    fitting = [one for one in able if choice.reason in (None, one.reason)]
    young = [one for one in fitting if choice.again or not _too_old(one)]
    if too_old := len(fitting) - len(young):
        say_on_stderr(f"{too_old} letters are older than {news} remembers, and may have been sent before: add --again")
    return _one_a_case([one for one in young if not one.requeued or (choice.again and one.case is None)])


def _refuse(letter: Letter, choice: Choice, news: str) -> None:
    if letter.topic != news and letter.case is None:
        raise ConfigError(
            f"letter {letter.id} comes from {letter.topic or 'nowhere'}, whose records only the pipeline writes; only "
            f"letters from {news} and of cases that failed can be sent again. Publish the news anew instead"
        )
    if letter.requeued and letter.case is not None and choice.value is None:
        raise ConfigError(
            f"case {letter.case} was tried again already, and once is all that a letter opens: if that attempt failed "
            "too, it left a letter of its own; --value sends other bytes"
        )
    if letter.requeued and not choice.again:
        raise ConfigError(f"letter {letter.id} was sent again before: add --again to send it once more")
    if _too_old(letter) and not choice.again:
        raise ConfigError(f"letter {letter.id} is older than {news} remembers: add --again to send it (once more)")


def _too_old(letter: Letter) -> bool:
    return datetime.now(UTC) - letter.at > NEWS_KEPT


def _one_a_case(letters: Sequence[Letter]) -> list[Letter]:
    # A worker that is killed between a case's letter and its terminal event leaves two letters of one case.
    seen: set[str] = set()
    return [one for one in letters if one.case is None or not (one.case in seen or seen.add(one.case))]  # type: ignore[func-returns-value]


def _key(letter: Letter, value: bytes | None) -> bytes | None:
    try:
        return decode_news(value, now=datetime.now(UTC)).key
    except ContractError:
        return letter.key
