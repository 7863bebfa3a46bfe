"""The embedded ClickHouse: a child process with the engine (chdb) behind ClickHouse's HTTP protocol.

    async with EmbeddedClickHouse(Path("data/clickhouse")) as server:
        client = clickhouse_connect.get_client(host=server.host, port=server.port, compress=False)

Guarantees: an acknowledged insert survives a SIGKILL of this process or of the server. It may not survive a power cut:
like a ClickHouse server, the engine relies on the disk cache. The child ends when this process ends, however that
happens. One server at a time uses a data directory.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx
import msgspec

from infra.embedded.child import ChildProcess, DirectoryLock
from infra.embedded.clickhouse.wire import EngineUser, default_memory_bytes, loopback_socket

__all__ = ["EmbeddedClickHouse", "EngineUser"]

_START_TIMEOUT_S = 60.0
_INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""Inherited variables: not the whole environment, because it contains keys, and the engine can read its environment."""
_PROJECT = Path(__file__).resolve().parents[3]


class EmbeddedClickHouse:
    """One ClickHouse engine on one data directory, on 127.0.0.1."""

    host = "127.0.0.1"

    def __init__(
        self,
        data_dir: Path,
        *,
        port: int | None = None,
        users: Sequence[EngineUser] = (EngineUser("default"),),
        memory_bytes: int | None = None,
    ) -> None:
        """Configure the server; nothing runs yet.

        ``port`` None lets the system choose at every start. ``users`` may connect with their passwords; by default the
        user ``default`` with all rights and no password. ``memory_bytes`` bounds the engine
        (``max_server_memory_usage``); None = a third of the machine's memory, within 1 to 4 GiB. A query may use three
        quarters of it, and spills sorts and groupings to disk at a third.
        """
        self.data_dir = data_dir.resolve()
        self._wanted_port = port
        self._port: int | None = None
        self._users = list(users)
        self._memory_bytes = memory_bytes or default_memory_bytes()
        self._lock = DirectoryLock(self.data_dir, what="ClickHouse")
        self._child: ChildProcess | None = None

    @property
    def port(self) -> int:
        """The port in use. Raises RuntimeError before the start."""
        if self._port is None:
            raise RuntimeError("ClickHouse has not been started: await start() first.")
        return self._port

    @property
    def pid(self) -> int:
        """The process id of the engine's process. Raises RuntimeError before the start."""
        if self._child is None:
            raise RuntimeError("ClickHouse has not been started: await start() first.")
        return self._child.pid

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.running

    async def start(self) -> None:
        """Start the server; return once it has responded to ``SELECT 1``. Does nothing if it is running.

        Raises:
            ConfigError: another process uses the data directory, the port is taken, or the server did not start; the
                text contains the end of its log.
        """
        if self.running:
            return
        self._lock.acquire()
        try:
            child = self._launch()
            await child.wait_until(self._answers, timeout_s=_START_TIMEOUT_S)
        except BaseException:
            self._lock.release()
            raise

    def _launch(self) -> ChildProcess:
        # Bound here and inherited, so that no other process can take the port between choosing and listening.
        with loopback_socket(self._wanted_port or 0) as listener:
            self._port = listener.getsockname()[1]
            path = os.pathsep.join(filter(None, (str(_PROJECT), os.environ.get("PYTHONPATH"))))
            command = [sys.executable, "-P", "-m", "infra.embedded.clickhouse.process"]
            command += ["--data-dir", str(self.data_dir), "--memory-bytes", str(self._memory_bytes)]
            command += ["--listen-fd", str(listener.fileno())]
            self._child = ChildProcess(
                "ClickHouse",
                command,
                log_file=self.data_dir / "server.log",
                env={"PYTHONPATH": path},
                inherits=_INHERITED,
                stdin=msgspec.json.encode(self._users),
                keep_fds=(listener.fileno(), self._lock.fd),
            )
            self._child.start()
        return self._child

    async def stop(self) -> None:
        """Give requests 5 s to end, close the engine, and end the process. Does nothing if it has ended."""
        try:
            if self._child is not None:
                await self._child.stop()
        finally:
            self._lock.release()

    def kill(self) -> None:
        """SIGKILL the process, as a crash would; ``start()`` may follow."""
        if self._child is not None:
            self._child.kill()
        self._lock.release()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def responds(self) -> bool:
        """Return whether the engine responds. Has no timeout: the caller bounds the time."""
        try:
            async with httpx.AsyncClient(trust_env=False, timeout=None) as http:
                return (await http.get(f"http://{self.host}:{self.port}/ping")).status_code == 200
        except httpx.TransportError:
            return False

    async def _answers(self) -> bool:
        user = self._users[0]
        url = f"http://{self.host}:{self.port}/"
        try:
            async with httpx.AsyncClient(trust_env=False, timeout=5.0, auth=(user.name, user.password)) as http:
                reply = await http.get(url, params={"query": "SELECT 1"})
        except httpx.TransportError:
            return False
        return reply.status_code == 200 and reply.text == "1\n"
