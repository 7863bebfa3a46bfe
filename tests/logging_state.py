"""The logging of a test process, which a command that runs in it configures for itself."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from newsproof.app.logging_setup import _QUIET

_OURS = ("agents", "evaluation", "infra", "lab", "newsproof", "schemas", "streams")
_LAZY = type(structlog.get_logger())


@contextmanager
def logs_as_they_were() -> Iterator[None]:
    """Undo on leaving what changed: handlers and levels, structlog's configuration, and the loggers that hold on to one.

    A command's configuration lets every logger keep what it was first used with, so that a test in which the logs are
    captured would see nothing of a logger that a command has used before.
    """
    before, loggers = structlog.get_config(), [logging.root, *map(logging.getLogger, _QUIET)]
    handlers, levels = logging.root.handlers[:], [one.level for one in loggers]
    try:
        yield
    finally:
        logging.root.handlers[:] = handlers
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
        if structlog.get_config() != before:
            structlog.configure(**before)
            for name, module in list(sys.modules.items()):
                if name.partition(".")[0] in _OURS:
                    for log in [one for one in vars(module).values() if isinstance(one, _LAZY)]:
                        vars(log).pop("bind", None)
