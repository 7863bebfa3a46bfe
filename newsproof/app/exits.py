"""Exit statuses of the command line, and their errors. Documented in docs/cli.md and docs/lab.md."""

from __future__ import annotations

import asyncio
import errno

from schemas.errors import ConfigError, ContractError, NewsproofError, PermanentError, TransientError

OK = 0
FINDING = 1
"""The command worked and found a problem: an audit that is not clean, a refused line, a failed check."""
USAGE = 2
"""Wrong arguments, a wrong setting, or a statement that the engine refuses: fix it, then run again."""
UNREACHABLE = 3
"""A server does not respond."""
INTERNAL = 70
"""A bug in Newsproof (``EX_SOFTWARE`` of sysexits.h); ``--debug`` shows where."""
GATE_CLOSED = 100
"""The gate of ``backtest gate`` is closed. Not 1, so that a build can tell a worse prompt from an error."""
GATE_UNDECIDED = 101
"""The gate of ``backtest gate`` stays closed for want of evidence: nothing shows a loss, and nothing excludes one."""
INTERRUPTED = 130

MEANINGS = {
    OK: "success",
    FINDING: "the command worked and found a problem: an audit that is not clean, a refused line, a failed check",
    USAGE: "wrong arguments, a wrong setting or a refused statement: correct it and run the command again",
    UNREACHABLE: "a server is unreachable",
    INTERNAL: "a bug in Newsproof: run the command again with --debug and report it",
    GATE_CLOSED: "`backtest gate`: run B loses",
    GATE_UNDECIDED: "`backtest gate`: not enough evidence that run B does not lose",
    INTERRUPTED: "interrupted (Ctrl-C)",
}


def status_of(exc: BaseException) -> int:
    """Return the exit status for an error."""
    if isinstance(exc, KeyboardInterrupt | asyncio.CancelledError):
        return INTERRUPTED
    if _is_full_disk(exc):
        return USAGE
    if isinstance(exc, TransientError) or _is_kafka_error(exc):
        return UNREACHABLE
    if isinstance(exc, ConfigError | PermanentError):
        return USAGE
    if isinstance(exc, ContractError | NewsproofError):
        return FINDING
    return INTERNAL


def text_of(exc: BaseException) -> str:
    """Return the error as one line for people."""
    if _is_full_disk(exc):
        return f"the disk is full ({exc}): free some space, then run the command again"
    if _is_kafka_error(exc):
        return (
            f"Kafka returned an unexpected error ({exc!r}): check that it is running, and check KAFKA_BOOTSTRAP_SERVERS"
        )
    if isinstance(exc, NewsproofError):
        return str(exc)
    return f"{type(exc).__name__}: {exc} — a bug in Newsproof; run the command again with --debug for the traceback"


def _is_full_disk(exc: BaseException) -> bool:
    return isinstance(exc, OSError) and exc.errno in (errno.ENOSPC, errno.EDQUOT)


def _is_kafka_error(exc: BaseException) -> bool:
    return any(base.__module__.startswith("aiokafka.") and base.__name__ == "KafkaError" for base in type(exc).__mro__)
