"""``python -m newsproof``, and the command that an installation puts on the PATH."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any


def _interrupted(_number: int, _frame: Any) -> None:
    os.write(sys.stderr.fileno(), b"newsproof: interrupted; nothing was started\n")
    os._exit(130)


def _ended(_number: int, _frame: Any) -> None:
    os._exit(130)


def main() -> None:
    """Run the command line. Ctrl-C prints a message even before a command starts its work, and after it."""
    is_handled = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # not if our parent process ignores it
    if is_handled:
        signal.signal(signal.SIGINT, _interrupted)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # `./run` blocks it while Python starts
    from newsproof.cli.main import main as run

    try:
        run()
    finally:
        if is_handled:
            signal.signal(signal.SIGINT, _ended)


if __name__ == "__main__":
    main()
