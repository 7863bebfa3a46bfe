"""Entry point of the embedded ClickHouse process: enters the sandbox, then loads and serves the engine.

``server.py`` starts it, with the socket and the directory's lock inherited. It enters the sandbox before it loads the engine's library, because the sandbox restricts only threads that start
afterwards. If the kernel has Landlock, this process can write only to the engine's folder, the spool and ``/dev/null``,
can read only these and the files that a program needs, and cannot open TCP connections. It receives no secret that it
does not need: only the environment variables that programs need, and the users on standard input, which neither ``ps``
nor ``/proc`` shows.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import sys
import tempfile
from pathlib import Path

import msgspec

from infra.embedded.clickhouse.access import write_access
from infra.embedded.clickhouse.wire import EngineUser
from infra.landlock import confine, program_files
from schemas.errors import ConfigError


def main() -> None:
    """Run the server. Exits with status 1 and one line on standard error if it cannot start."""
    parser = argparse.ArgumentParser(prog="clickhouse_process", description="ClickHouse's engine over HTTP.")
    parser.add_argument("--data-dir", type=Path, required=True, help="directory of tables and rows")
    parser.add_argument("--listen-fd", type=int, required=True, help="a bound socket that was inherited")
    parser.add_argument("--memory-bytes", type=int, required=True, help="engine's limit")
    options = parser.parse_args()
    users = msgspec.json.decode(sys.stdin.buffer.read(), type=list[EngineUser])
    try:
        _run(options.data_dir.resolve(), socket.socket(fileno=options.listen_fd), users, options.memory_bytes)
    except (ConfigError, RuntimeError) as exc:
        sys.exit(f"clickhouse_process: {exc}")


def _run(data_dir: Path, listener: socket.socket, users: list[EngineUser], memory_bytes: int) -> None:
    engine, spool = data_dir / "engine", data_dir / "spool"
    for directory in (engine, spool):
        directory.mkdir(parents=True, exist_ok=True)
    access = write_access(data_dir, users)  # outside the writable folders: no statement can change it
    os.environ["TMPDIR"] = tempfile.tempdir = str(spool)
    confine(
        writable=[engine, spool, Path(os.devnull)], readable=[*program_files(), access, access.with_name("users.xml")]
    )
    from infra.embedded.clickhouse.engine import Engine
    from infra.embedded.clickhouse.protocol import serve

    asyncio.run(serve(Engine(engine, memory_bytes=memory_bytes, access=access), listener, users, spool))


if __name__ == "__main__":
    main()
