"""Failpoints: named places in the code where a chaos run kills the process.

An unarmed failpoint costs one lookup in an empty table.

A process under test calls :func:`listen`. The chaos run writes a failpoint's name into the file and sends SIGUSR1. The
next :func:`hit` of that name then kills the process as a power cut would. Nothing arms a failpoint in normal operation.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

from schemas.errors import ConfigError

EFFECT_BEFORE = "effect:before"
EFFECT_ANSWERED = "effect:answered"
APPEND_BEFORE = "append:before"
APPEND_DONE = "append:done"
COMMIT_BEFORE = "commit:before"
PUBLISH_BEGUN = "publish:begun"
PUBLISH_SENT = "publish:sent"
SINK_PLANNED = "sink:planned"
SINK_INSERTED = "sink:inserted"
DRAINED = "revoke:drained"

FAILPOINTS: dict[str, str] = {
    EFFECT_BEFORE: "a call is granted and about to be made",
    EFFECT_ANSWERED: "the provider has responded; the response is not in the log yet",
    APPEND_BEFORE: "a record is about to be passed to the producer",
    APPEND_DONE: "a record is durable; its offset is not committed, and its waiters do not know yet",
    COMMIT_BEFORE: "the worker is about to commit its watermark",
    PUBLISH_BEGUN: "inside publish's transaction, before its first signal",
    PUBLISH_SENT: "inside publish's transaction, after its last signal and its offsets",
    SINK_PLANNED: "the sink's range is in its commit metadata; no row is inserted yet",
    SINK_INSERTED: "the rows are in ClickHouse; the commit that says so is not made yet",
    DRAINED: "partitions are being revoked and the grace period is over; calls still running may be paid twice",
}
"""Every failpoint, in the order in which a case passes them, with the state at that point."""

_armed: dict[str, Callable[[], None]] = {}


def hit(name: str) -> None:
    """Run the action that the failpoint is armed with. In normal operation there is none."""
    if (action := _armed.get(name)) is not None:
        action()


def kill_this_process() -> None:
    """Kill this process as a power cut would: no handlers, no flush."""
    os.kill(os.getpid(), signal.SIGKILL)


def arm(name: str, action: Callable[[], None] = kill_this_process) -> None:
    """Make every later hit of this failpoint call ``action``.

    Raises:
        ConfigError: there is no failpoint of this name.
    """
    if name not in FAILPOINTS:
        raise ConfigError(f"there is no failpoint {name!r}: use one of {', '.join(FAILPOINTS)}")
    _armed[name] = action


def listen(control: Path) -> None:
    """On SIGUSR1, arm the failpoint named in the file to kill this process. Call inside the running event loop."""
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, lambda: arm(control.read_text("ascii").strip()))
