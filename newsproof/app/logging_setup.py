"""Log configuration, once per process, always to standard error, so that standard output holds only results."""

from __future__ import annotations

import json
import logging
import sys
from typing import TYPE_CHECKING, Any, TextIO, cast

import orjson

from infra import late_log
from infra.redaction import redacted
from newsproof.app.terminal import behind
from schemas.printable import printable, printable_json, printable_line

if TYPE_CHECKING:
    import structlog

_QUIET = ("aiokafka", "faust", "mode", "asyncio", "httpx", "httpcore", "urllib3", "clickhouse_connect", "jgo", "mcp")


class _StandardError:
    """The present standard error. (Loggers keep their stream, but code that captures output may replace it.)

    Writes to the stream behind the terminal's guard, because the renderer's colours must pass. Its texts are
    cleaned.
    """

    def write(self, text: str) -> int:
        return behind(sys.stderr).write(text)

    def flush(self) -> None:
        sys.stderr.flush()


def configure_logs(level: str = "INFO", *, libraries: str = "WARNING") -> None:
    """Send log events of ours and of libraries to standard error: lines for people on a terminal, else one JSON object each.

    ``libraries`` is the minimum level for other packages. Commands that wait for a server set it to CRITICAL, because
    they report errors themselves.
    """
    import structlog

    terminal = sys.stderr.isatty()
    rendering: list[structlog.types.Processor] = [structlog.processors.format_exc_info]
    if terminal:
        # The exception is cleaned text by then: a renderer of its own would print its message and local variables raw.
        rendering += [_printable_values, _line_for_people, _without_secrets]
    else:
        rendering += [structlog.processors.JSONRenderer(_document), _printable_document, _without_secrets]
    shared: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="%H:%M:%S" if terminal else "iso", utc=True),
    ]
    structlog.configure(
        processors=[*shared, *rendering],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level)),
        logger_factory=structlog.PrintLoggerFactory(file=cast(TextIO, _StandardError())),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(cast(TextIO, _StandardError()))
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering],
        )
    )
    _use(handler, level, libraries)


def configure_logs_late() -> None:
    """Do what :func:`configure_logs` does for a command, at the first message: structlog takes long to import.

    For commands none of whose modules imports structlog by itself (:mod:`infra.late_log`).
    """
    late_log.configure_at_first_message(lambda: configure_logs("WARNING", libraries="CRITICAL"))
    _use(_FirstMessage(), "WARNING", "CRITICAL")


class _FirstMessage(logging.Handler):
    def handle(self, record: logging.LogRecord) -> bool:
        late_log.configure_now()
        for handler in logging.root.handlers:
            if handler is not self:  # the configuration may not have replaced this handler
                handler.handle(record)
        return True


def _use(handler: logging.Handler, level: str, libraries: str) -> None:
    logging.root.handlers[:] = [handler]
    logging.root.setLevel(level)
    for name in _QUIET:
        logging.getLogger(name).setLevel(libraries)


_OF_SEVERAL_LINES = ("exception", "stack")


def _printable_values(_logger: Any, _method: str, event: structlog.types.EventDict) -> structlog.types.EventDict:
    # On one line: a line feed in a value would start what looks like another log line.
    shown = {}
    for name, value in event.items():
        text = value if isinstance(value, str) else repr(value)
        shown[printable_line(str(name))] = printable(text) if name in _OF_SEVERAL_LINES else printable_line(text)
    return shown


_COLOURS = {"warning": "\x1b[33m", "error": "\x1b[31m", "critical": "\x1b[31m"}
_PLAIN = "\x1b[0m"


def _line_for_people(_logger: Any, _method: str, event: structlog.types.EventDict) -> str:
    """Return ``14:03:05 coindesk: items: new 2``. What is more than information has its level before it, in colour."""
    at, level, what = (str(event.pop(name, "")) for name in ("timestamp", "level", "event"))
    source, why, do = (event.pop(name, "") for name in ("source", "why", "do"))
    below = [event.pop(name, "") for name in _OF_SEVERAL_LINES]
    details = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in event.items() if value not in ("", "{}"))
    message = ": ".join(filter(None, (source, what, details, why)))
    mark = f"{_COLOURS[level]}{level}{_PLAIN}: " if level in _COLOURS else ""
    return "\n".join(filter(None, (f"{at} {mark}{message}{f'. To do: {do}' if do else ''}", *below)))


def _document(event: structlog.types.EventDict, *, default: Any) -> str:
    # A third of json's time. json writes what it refuses, such as lone surrogates and large numbers.
    try:
        return orjson.dumps(event, default, orjson.OPT_PASSTHROUGH_DATETIME).decode()
    except orjson.JSONEncodeError:
        return json.dumps(event, default=default, ensure_ascii=False)


def _printable_document(_logger: Any, _method: str, line: Any) -> str:
    return printable_json(str(line))


def _without_secrets(_logger: Any, _method: str, line: Any) -> str:
    # Last, because it must clean the texts of exceptions and of providers' messages.
    return redacted(str(line))
