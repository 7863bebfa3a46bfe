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
    """Run the command line. Ctrl-C before a command begins its work ends it in words, as later; so it does after it."""
    heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # not if whoever started us wants it ignored
    if heard:
        signal.signal(signal.SIGINT, _interrupted)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # `./run` holds it back while Python itself starts
    from newsproof.cli.main import main as run

    try:
        run()
    finally:
        if heard:
            signal.signal(signal.SIGINT, _ended)


if __name__ == "__main__":
    main()
