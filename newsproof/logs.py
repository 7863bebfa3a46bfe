"""Logs: configured once a process, always on standard error, so that standard output holds results alone."""

from __future__ import annotations

import logging
import sys
from typing import Any, TextIO, cast

import structlog

from infra.redaction import redacted

_QUIET = ("aiokafka", "faust", "mode", "asyncio", "httpx", "httpcore", "urllib3", "clickhouse_connect", "jgo")


class _StandardError:
    """Standard error as it is when something is written: loggers keep their stream, and whoever captures it may replace it."""

    def write(self, text: str) -> int:
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()


def configure_logs(level: str = "INFO", *, libraries: str = "WARNING") -> None:
    """Send our events and those of libraries to standard error: coloured on a terminal, else one JSON object a line.

    ``libraries`` is the least level of what other packages say; commands that wait for a server set it to CRITICAL,
    because they report what is wrong themselves.
    """
    terminal = sys.stderr.isatty()
    renderer: structlog.types.Processor = (
        structlog.dev.ConsoleRenderer() if terminal else structlog.processors.JSONRenderer(ensure_ascii=False)
    )
    shared: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    tail: list[structlog.types.Processor] = [] if terminal else [structlog.processors.format_exc_info]
    structlog.configure(
        processors=[*shared, *tail, renderer, _without_secrets],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level)),
        logger_factory=structlog.PrintLoggerFactory(file=cast(TextIO, _StandardError())),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(cast(TextIO, _StandardError()))
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *tail, renderer, _without_secrets],
        )
    )
    logging.root.handlers[:] = [handler]
    logging.root.setLevel(level)
    for name in _QUIET:
        logging.getLogger(name).setLevel(libraries)


def _without_secrets(_logger: Any, _method: str, line: Any) -> str:
    # The last line: whatever an exception or a provider's words brought in.
    return redacted(str(line))
