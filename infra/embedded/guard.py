"""Tie a program's life to its parent's: run as a script, it becomes the program and leaves a watcher behind.

    python -I -S guard.py PARENT_PID PIPE_FD PROGRAM [ARGUMENT...]

``PIPE_FD`` is the read end of a pipe whose write end only the parent holds. The process forks a
watcher and then *becomes* PROGRAM (exec), so the parent's child is the program itself, with its
real pid and exit status. The watcher waits for the end of the pipe, which the kernel closes however
the parent dies (SIGKILL included, Linux and macOS alike), and then sends the program SIGKILL.

Not ``PR_SET_PDEATHSIG``: that is Linux only, and fires when the *thread* that forked ends, which
with a thread pool is long before its process does.

Standard library only and no imports of ours: it starts in about 15 ms.
"""

from __future__ import annotations

import os
import select
import signal
import sys

RECHECK_S = 1.0
"""How often (seconds) to look beside the pipes, for the case that a stray copy keeps one open."""


def parent_is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def watch(parent: int, program: int, parent_pipe: int, program_pipe: int) -> None:
    """Return when the program has ended; kill it as soon as the parent has."""
    # The watcher must not hold the lock of a data directory, nor anything else of the program's.
    low, high = sorted((parent_pipe, program_pipe))
    os.closerange(3, low)
    os.closerange(low + 1, high)
    os.closerange(high + 1, 65536)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    while os.getppid() == program:
        readable, _, _ = select.select([parent_pipe, program_pipe], [], [], RECHECK_S)
        if program_pipe in readable:
            return
        if parent_pipe in readable or not parent_is_alive(parent):
            # Being its child still, we know that the pid has not been given to another process.
            if os.getppid() == program:
                os.kill(program, signal.SIGKILL)
            return


def main() -> None:
    parent, parent_pipe = int(sys.argv[1]), int(sys.argv[2])
    command = sys.argv[3:]
    program = os.getpid()
    # The program keeps the write end to its own end, so that the watcher sees it at once.
    program_pipe, held_by_program = os.pipe()
    if os.fork() == 0:
        os.close(held_by_program)
        try:
            watch(parent, program, parent_pipe, program_pipe)
        finally:
            os._exit(0)
    os.close(parent_pipe)
    os.close(program_pipe)
    os.set_inheritable(held_by_program, True)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
