"""A single-node Apache Kafka (KRaft, combined broker and controller) as a child process.

Measured on 2 cores with Java 17: 7 s to fetch the jars once; then 1.4 s to start on an empty directory (2.4 s before
the class archive exists), 0.3 s to stop, 3 s to start after a SIGKILL; 300 MB resident. ``child.py`` states the
guarantees of the process.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import errno
import os
import secrets
import struct
import sys
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from infra.embedded.child import ChildProcess, DirectoryLock, free_ports, port_owner, why_not_bound
from infra.embedded.kafka.jars import default_cache_dir, ensure_jars
from infra.embedded.kafka.java import ClassArchive, Java, find_java
from infra.embedded.kafka.settings import JVM_FLAGS, PROPERTIES
from infra.kafka.address import EMBEDDED_USER, KafkaAddress
from infra.owner_only import kept_secret, write_owner_only
from infra.redaction import know
from schemas.errors import ConfigError

PASSWORD_FILE = "password"
"""File in the data directory with the password of ``EMBEDDED_USER``. Created at the first start, then kept."""

_READY_TIMEOUT_S = 60.0
_PORT_ATTEMPTS = 3


class EmbeddedKafka:
    """A Kafka broker on 127.0.0.1 with a data directory of its own. Do not call ``start`` concurrently.

    Broker and controller require a password, which only the directory's owner can read. Other users of the machine can
    connect to the ports, but cannot log in. Whoever knows the password may do everything. The password crosses loopback
    unencrypted, so a process that takes the port of a broker that has ended, or is just starting, receives it.

    Starts on an empty directory or on one from an earlier run, however that run ended. Without ``port`` the system
    chooses a port. This object keeps the port across ``stop`` or ``kill`` and ``start``, so that clients find the
    broker again.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        port: int | None = None,
        cache_dir: Path | None = None,
        cluster_id: str | None = None,
        more_properties: str = "",
        progress: Callable[[str], None] = lambda text: print(text, file=sys.stderr, flush=True),
    ) -> None:
        """Configure the broker; nothing starts yet.

        ``cache_dir`` holds the jars and the class archive for
        all data directories (the user's cache directory by default). ``progress`` receives a line before a download.
        ``cluster_id`` is written into an empty directory; None = a random one. ``more_properties`` are lines for
        ``server.properties`` that override the defaults; ``{port}``, ``{controller_port}`` and ``{password}`` in them
        are replaced.
        """
        self.data_dir = data_dir.absolute()
        self.log_file = self.data_dir / "kafka.log"
        self._cache_dir = cache_dir or default_cache_dir()
        self._cluster_id = cluster_id
        self._more_properties = more_properties
        self._progress = progress
        self._port_is_asked_for = port is not None
        self._port = port
        self._lock = DirectoryLock(self.data_dir, what="Kafka")
        self._child: ChildProcess | None = None
        self._archive: ClassArchive | None = None
        self._records_archive = False
        self._password = ""

    @property
    def bootstrap(self) -> str:
        """The address ``127.0.0.1:PORT``, for ``bootstrap_servers``. Raises RuntimeError before the first start."""
        if self._port is None:
            raise RuntimeError("The embedded Kafka has no port before its first start().")
        return f"127.0.0.1:{self._port}"

    @property
    def address(self) -> KafkaAddress:
        """The address and login for clients. Raises RuntimeError before the first start."""
        return KafkaAddress.embedded(self.bootstrap, self.data_dir / PASSWORD_FILE)

    @property
    def pid(self) -> int:
        """The process id of the Java process. Raises RuntimeError before the first start."""
        if self._child is None:
            raise RuntimeError("The embedded Kafka has not been started.")
        return self._child.pid

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.running

    async def start(self) -> None:
        """Start the broker; return once it is registered and responds to metadata requests.

        Raises:
            ConfigError: the data directory or the port is in use, no Java works, a jar cannot be fetched or is not the
                pinned one, or Kafka does not start (the text ends with the last lines of its log).
            RuntimeError: the broker is already running.
        """
        if self.running:
            raise RuntimeError(f"This Kafka is already running at {self.bootstrap}.")
        self._lock.acquire()
        given_up = threading.Event()
        try:
            jars = await asyncio.to_thread(ensure_jars, self._cache_dir, progress=self._progress, given_up=given_up)
            java = await asyncio.to_thread(find_java)
            self._archive = ClassArchive(self._cache_dir, java, jars)
            await self._start_on_some_port(java, os.pathsep.join(map(str, jars)))
        except BaseException:
            given_up.set()
            self.kill()
            raise
        write_owner_only(self.data_dir / "address", self.bootstrap)

    async def stop(self, timeout: float = 30.0) -> None:
        """Shut down in an orderly way (0.3 s); kill after ``timeout`` seconds. Does nothing if it is not running.

        The first orderly stop after Java or the jars changed takes 2 to 5 s more, because it writes the class archive
        that makes later starts faster.
        """
        if self._child is not None:
            status = await self._child.stop(timeout_s=timeout)
            if self._archive is not None and self._records_archive:
                # 143: Java's exit status after an orderly SIGTERM.
                self._archive.keep_recording(complete=status in (0, 143))
        self._settle()

    def kill(self) -> None:
        """SIGKILL the broker: like a power cut, except that the system's page cache survives. ``start`` may follow."""
        if self._child is not None:
            self._child.kill()
            if self._archive is not None and self._records_archive:
                self._archive.keep_recording(complete=False)
        self._settle()

    def _settle(self) -> None:
        self._records_archive = False
        self._lock.release()

    async def __aenter__(self) -> EmbeddedKafka:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def _start_on_some_port(self, java: Java, class_path: str) -> None:
        for attempt in range(1, _PORT_ATTEMPTS + 1):
            self._write_properties()
            await self._format_once(java, class_path)
            try:
                return await self._run_broker(java, class_path)
            except ConfigError:
                # Another process may take the port between our choice and Java's bind.
                taken = self._child is not None and "Address already in use" in self._child.log_tail(200)
                if not taken or attempt == _PORT_ATTEMPTS:
                    raise
                if not self._port_is_asked_for:
                    self._port = None

    def _write_properties(self) -> None:
        chosen, controller_port = free_ports(2)
        if self._port is None:
            self._port = chosen
        elif (exc := why_not_bound(self._port)) is not None:
            if exc.errno != errno.EADDRINUSE:
                raise ConfigError(
                    f"Kafka cannot listen on port {self._port} of 127.0.0.1 ({exc.strerror}). Choose another port, or none "
                    "for any free port."
                ) from exc
            raise ConfigError(
                f"Port {self._port} of 127.0.0.1 is in use by {port_owner(self._port)}, so Kafka cannot listen there. Stop "
                "that process, choose another port, or none for any free port."
            ) from exc
        self._password = _kept_password(self.data_dir / PASSWORD_FILE)
        text = (PROPERTIES + self._more_properties).format(
            port=self._port, controller_port=controller_port, password=self._password
        )
        write_owner_only(self.data_dir / "server.properties", text)

    async def _format_once(self, java: Java, class_path: str) -> None:
        """Write the cluster id into an empty data directory, as KRaft requires (0.4 s)."""
        done = self.data_dir / "cluster-id"
        if done.exists():
            return
        # "A", because Kafka's tools parse an id that starts with a dash as an option.
        cluster_id = self._cluster_id or "A" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode("ascii")[1:22]
        assert self._archive is not None
        tool = self._java_child(
            "Formatting Kafka's data directory",
            java,
            self._archive.use(),
            class_path,
            ["kafka.tools.StorageTool", "format", "--ignore-formatted", "-t", cluster_id],
            ["-c", "server.properties"],
        )
        tool.start()
        try:
            if await tool.wait(timeout_s=_READY_TIMEOUT_S) != 0:
                raise ConfigError(
                    f"Kafka could not format {self.data_dir}: {tool.log_tail()}\nCheck that the directory is "
                    "writable and its disk is not full. If it holds nothing that you need, empty it and start again."
                )
        finally:
            tool.kill()
        # Written last, so that an interrupted format is repeated.
        write_owner_only(done, cluster_id)

    async def _run_broker(self, java: Java, class_path: str) -> None:
        assert self._archive is not None
        flags, self._records_archive = self._archive.use_or_record()
        self._child = self._java_child("Kafka", java, flags, class_path, ["kafka.Kafka", "server.properties"])
        self._child.start()
        await self._child.wait_until(self._serves, timeout_s=_READY_TIMEOUT_S, poll_s=0.03)

    def _java_child(
        self, name: str, java: Java, flags: list[str], class_path: str, *arguments: list[str]
    ) -> ChildProcess:
        return ChildProcess(
            name,
            [str(java.path), *JVM_FLAGS, *flags, "-cp", class_path, *(word for part in arguments for word in part)],
            log_file=self.log_file,
            cwd=self.data_dir,
            keep_fds=(self._lock.fd,),
        )

    async def responds(self) -> bool:
        """Return whether the broker responds, also while it is fenced. Has no timeout: the caller bounds the time."""
        assert self._port is not None
        try:
            await _lists_a_broker(self._port, self._password)
        except (OSError, asyncio.IncompleteReadError, struct.error):
            return False
        return True

    async def _serves(self) -> bool:
        assert self._port is not None
        try:
            async with asyncio.timeout(2):
                return await _lists_a_broker(self._port, self._password)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, struct.error, ValueError):
            return False


def _kept_password(file: Path) -> str:
    """Return the directory's password; generate it if there is none. The caller holds the directory's lock."""
    password = kept_secret(file)
    if password is None:
        password = secrets.token_urlsafe(32)
        write_owner_only(file, password)
    know(password)
    return password


async def _lists_a_broker(port: int, password: str) -> bool:
    """Log in and request Metadata (API 3, version 1, no topics): the response lists the broker once it is unfenced.

    Uses no client library, because that would log a warning for each refusal while Kafka starts.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def ask(api: int, version: int, body: bytes) -> bytes:
        request = struct.pack(">hhih", api, version, 1, -1) + body
        writer.write(struct.pack(">i", len(request)) + request)
        size, _correlation = struct.unpack(">ii", await reader.readexactly(8))
        return await reader.readexactly(size - 4)

    try:
        token = f"\0{EMBEDDED_USER}\0{password}".encode()
        # SaslHandshake, then SaslAuthenticate: both responses begin with an error code.
        for api, version, body in ((17, 1, b"\0\5PLAIN"), (36, 0, struct.pack(">i", len(token)) + token)):
            if (await ask(api, version, body))[:2] != b"\0\0":
                return False
        (brokers,) = struct.unpack_from(">i", await ask(3, 1, struct.pack(">i", 0)))
        return bool(brokers > 0)
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def running_bootstrap(data_dir: Path) -> str | None:
    """Return the address of the Kafka that runs on ``data_dir`` now, whoever started it; None if there is none."""
    lock = DirectoryLock(data_dir, what="Kafka")
    if not (data_dir / "address").exists():
        return None
    try:
        lock.acquire(patience_s=0)
    except ConfigError:
        return (data_dir / "address").read_text("ascii")
    lock.release()
    return None
