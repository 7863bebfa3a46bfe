"""``python -m newsproof``, and the command that an installation puts on the PATH."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any


def _interrupted(_number: int, _frame: Any) -> None:
    os.write(sys.stderr.fileno(), b"newsproof: interrupted; nothing was started\n")
    os._exit(130)


def main() -> None:
    """Run the command line. Ctrl-C while it is still being imported ends it in words, as later."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # not if whoever started us wants it ignored
        signal.signal(signal.SIGINT, _interrupted)
    from newsproof.cli.main import main as run

    signal.signal(signal.SIGINT, before)
    run()


if __name__ == "__main__":
    main()
