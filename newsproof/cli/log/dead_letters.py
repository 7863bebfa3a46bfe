"""``newsproof dlq``: lists, shows and requeues dead letters (:mod:`newsproof.app.dead_letters`)."""

from __future__ import annotations

from typing import Any

from newsproof.app.data_access import log_to_read
from newsproof.app.dead_letters import Choice, DeadLetter, DeadLetters, chosen_of, named, replacement_of
from newsproof.app.invocation import Invocation, json_line, say_result, table
from newsproof.app.terminal import bytes_of_output
from schemas.printable import counted, shortened


def _document(dead_letter: DeadLetter) -> dict[str, Any]:
    about = {f: getattr(dead_letter, f) for f in DeadLetter.__struct_fields__ if f not in ("key", "value", "headers")}
    return about | {
        "key": None if dead_letter.key is None else dead_letter.key.decode("utf-8", "backslashreplace"),
        "value": dead_letter.preview,
        "headers": {k: v.decode("utf-8", "backslashreplace") for k, v in dead_letter.headers},
    }


async def show_dead_letters(invocation: Invocation, *, reason: str | None, as_json: bool) -> None:
    async with log_to_read(invocation) as log:
        dead_letters = [
            one for one in await DeadLetters(log.address, log.topics).read() if reason in (None, one.reason)
        ]
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
    async with log_to_read(invocation) as log:
        dead_letter = named(await DeadLetters(log.address, log.topics).read(), wanted)
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


async def requeue_dead_letters(invocation: Invocation, choice: Choice, *, as_json: bool) -> None:
    """Send the chosen letters to ``news`` again.

    Raises:
        ConfigError: nothing or too much is chosen, or a letter cannot be sent again.
    """
    replacement = replacement_of(choice)
    async with log_to_read(invocation) as log:
        letters = DeadLetters(log.address, log.topics)
        chosen = chosen_of(await letters.read(), choice, log.topics.news)
        await letters.send(chosen, replacement)
    if as_json:
        json_line({"requeued": [dead_letter.id for dead_letter in chosen]})
    else:
        say_result(f"sent {len(chosen)} again: {', '.join(dead_letter.id for dead_letter in chosen) or 'none'}")
