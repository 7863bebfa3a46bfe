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
def preserve_logging() -> Iterator[None]:
    """Restore handlers, levels, structlog's configuration and its cached loggers when the block ends.

    A command's configuration makes every logger cache the configuration of its first use. A test that captures logs would
    then miss the messages of a logger that a command has used before.
    """
    before, loggers = structlog.get_config(), [logging.root, *map(logging.getLogger, _QUIET)]
    handlers, levels = logging.root.handlers[:], [one.level for one in loggers]
    try:
        yield
    finally:
        logging.root.handlers[:] = handlers
        for logger, level in zip(loggers, levels, strict=True):
            if logger.level != level:  # setting one empties the caches of all loggers
                logger.setLevel(level)
        if structlog.get_config() != before:
            structlog.configure(**before)
            for name, module in list(sys.modules.items()):
                if name.partition(".")[0] in _OURS:
                    for log in [one for one in vars(module).values() if isinstance(one, _LAZY)]:
                        vars(log).pop("bind", None)
