"""The servers that a command uses: the configured ones, else those running on the data directory, else its own.

Embedded servers that a command starts end with it. A file that names a running server is trusted only after a request
to the server, because files outlive the processes that wrote them.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from infra.embedded.child import DirectoryLock, disk_is_full
from infra.owner_only import write_owner_only
from newsproof.app import exits
from newsproof.app.data_dir import refuse_unusable_directory, running_elsewhere
from newsproof.app.restarting import KeptServer
from newsproof.app.terminal import as_started
from schemas.errors import ConfigError, TransientError

if TYPE_CHECKING:
    from infra.settings import Settings

Say = Callable[[str], None]
Prepare = Callable[["Settings"], Awaitable[object]]
"""Prepares a server for use. The settings hold its address."""

DEMO = "demo"
"""Directory of the demo's data, inside the data directory."""
_OTHERS_START_S = 30.0
"""Maximum wait for servers that another command is starting on the same directory."""
_PROBE_S = 10.0


def say_on_stderr(text: str) -> None:
    """Print one line for the person at the terminal. Standard output is only for results."""
    print(as_started(text), file=sys.stderr, flush=True)


class Servers(msgspec.Struct, frozen=True, kw_only=True):
    """The addresses in use. ``own`` names the servers that this command started."""

    kafka: str | None
    clickhouse: str | None
    own: tuple[str, ...] = ()
    embedded_kafka: bool = False
    kept: tuple[KeptServer, ...] = ()
    """The servers that this command started and must keep running."""

    def applied_to(self, settings: Settings) -> Settings:
        """Return the settings with these addresses."""
        update: dict[str, Any] = {}
        if self.kafka is not None:
            update["kafka_bootstrap_servers"] = self.kafka
        if self.embedded_kafka:
            # The embedded server determines the login, whatever is configured for another broker.
            update["kafka_embedded_password_file"] = password_file(settings.newsproof_data_dir / "kafka")
        if self.clickhouse is not None:
            update["clickhouse_url"] = self.clickhouse
        return settings.model_copy(update=update)


@contextlib.asynccontextmanager
async def servers(
    settings: Settings,
    *,
    kafka: bool = True,
    clickhouse: bool = True,
    say: Say = say_on_stderr,
    phase: Say | None = None,
    prepare: Mapping[str, Prepare] = MappingProxyType({}),
) -> AsyncIterator[Servers]:
    """Yield the requested servers. Those that this command must start are started concurrently.

    ``phase`` receives progress messages. Without it, a command that must start a server itself while a pipeline runs on
    another data directory prints which log it reads. ``prepare`` maps a server ("kafka", "clickhouse") to the work to
    do as soon as it responds, while the other server may still be starting.

    Raises:
        ConfigError: the data directory cannot be used, or an embedded server does not start.
        TransientError: a configured server does not respond, or the embedded Kafka has no space to write.
    """
    directory = settings.newsproof_data_dir
    starting: dict[str, Awaitable[_ServerHandle]] = {}
    if kafka:
        starting["kafka"] = _kafka(settings, directory / "kafka", say)
    if clickhouse:
        starting["clickhouse"] = _clickhouse(settings, directory / "clickhouse")
    by_name = await _side_by_side(
        {name: _prepared(name, start, settings, phase, prepare.get(name)) for name, start in starting.items()}
    )
    if phase is None and any(server.kept is not None for server in by_name.values()):
        for other in running_elsewhere(directory):
            say(
                f"Reading the log in {directory.absolute()}, where no pipeline is running. A pipeline is running on {other}: to "
                f"read that one, add --data-dir {other}"
            )
    try:
        with telling_full_disk(directory if kafka and not settings.kafka_bootstrap_servers else None):
            yield Servers(
                kafka=by_name["kafka"].address if kafka else None,
                clickhouse=by_name["clickhouse"].address if clickhouse else None,
                embedded_kafka=kafka and not settings.kafka_bootstrap_servers,
                own=tuple(name for name, server in by_name.items() if server.kept is not None),
                kept=tuple(server.kept for server in by_name.values() if server.kept is not None),
            )
    finally:
        # ClickHouse first: readers of Kafka write to it.
        for name in ("clickhouse", "kafka"):
            if name in by_name:
                if phase is not None and by_name[name].kept is not None:
                    phase(f"stopping {_NAMES[name]}")
                await by_name[name].end()


@contextlib.contextmanager
def telling_full_disk(directory: Path | None) -> Iterator[None]:
    """Name a full disk as the reason why this data directory's embedded Kafka does not respond. None: not embedded."""
    try:
        yield
    except Exception as exc:
        if directory is not None and exits.status_of(exc) == exits.UNREACHABLE and disk_is_full(directory):
            raise TransientError(
                f"the embedded Kafka cannot write because the disk of {directory} is full: free some space, then run the command again "
                f"({exits.text_of(exc)})"
            ) from exc
        raise


_NAMES = {"kafka": "Kafka", "clickhouse": "ClickHouse"}


async def _prepared(
    name: str, starting: Awaitable[_ServerHandle], settings: Settings, phase: Say | None, prepare: Prepare | None
) -> _ServerHandle:
    server = await starting
    if phase is not None:
        phase(f"{_NAMES[name]} is ready")
    if prepare is not None:
        where = Servers(
            kafka=server.address if name == "kafka" else None,
            clickhouse=server.address if name == "clickhouse" else None,
            embedded_kafka=name == "kafka" and not settings.kafka_bootstrap_servers,
        )
        try:
            await prepare(where.applied_to(settings))
        except BaseException:
            await server.end()
            raise
    return server


class _ServerHandle:
    """One server: its address, and the server itself if this command started it."""

    def __init__(self, address: str, kept: KeptServer | None = None) -> None:
        self.address = address
        self.kept = kept

    async def end(self) -> None:
        if self.kept is not None:
            await self.kept.stop()


async def _side_by_side(starting: dict[str, Awaitable[_ServerHandle]]) -> dict[str, _ServerHandle]:
    tasks = {name: asyncio.ensure_future(start) for name, start in starting.items()}
    try:
        await asyncio.gather(*tasks.values())
    except BaseException:
        for task in tasks.values():
            task.cancel()
        for server in await asyncio.gather(*tasks.values(), return_exceptions=True):
            if isinstance(server, _ServerHandle):
                await server.end()
        raise
    return {name: task.result() for name, task in tasks.items()}


# Kafka


async def _kafka(settings: Settings, directory: Path, say: Say) -> _ServerHandle:
    if settings.kafka_bootstrap_servers:
        if not await any_listens(settings.kafka_bootstrap_servers):
            raise TransientError(
                f"no Kafka broker responds at {settings.kafka_bootstrap_servers}: start it, correct "
                "KAFKA_BOOTSTRAP_SERVERS, or unset it to use an embedded Kafka"
            )
        return _ServerHandle(settings.kafka_bootstrap_servers)
    from infra.embedded.kafka.server import EmbeddedKafka

    async def start() -> _ServerHandle:
        refuse_unusable_directory(settings)
        server = EmbeddedKafka(directory, progress=say)
        await server.start()
        return _ServerHandle(server.bootstrap, KeptServer("Kafka", server))

    return await _running_or_own(lambda: running_kafka(directory), start)


async def running_kafka(directory: Path) -> str | None:
    """Return the address of the Kafka that now serves this data directory; None if there is none."""
    if not _is_there(directory / "address"):
        return None
    from infra.embedded.kafka.server import running_bootstrap

    address = running_bootstrap(directory)
    return address if address and await any_listens(address) else None


def password_file(directory: Path) -> Path:
    """Return the password file of this directory's embedded Kafka, as an absolute path for processes elsewhere."""
    from infra.embedded.kafka.server import PASSWORD_FILE

    return directory.absolute() / PASSWORD_FILE


def _is_there(file: Path) -> bool:
    try:
        return file.exists()
    except PermissionError as exc:
        raise ConfigError(
            f"{file.parent} belongs to another user: run the command as that user (sudo -u NAME …), or choose a data directory of your own"
        ) from exc


async def any_listens(bootstrap: str) -> bool:
    for address in bootstrap.split(","):
        host, _, port = address.strip().rpartition(":")
        try:
            async with asyncio.timeout(_PROBE_S):
                _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
        except (OSError, TimeoutError, ValueError):
            continue
        writer.close()
        return True
    return False


# ClickHouse


async def _clickhouse(settings: Settings, directory: Path) -> _ServerHandle:
    if settings.clickhouse_url:
        parts = urlsplit(settings.clickhouse_url)
        if not await _pings(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"):
            raise TransientError(
                "no ClickHouse responds at CLICKHOUSE_URL: start it, correct the setting, or unset it to use the "
                "embedded ClickHouse"
            )
        return _ServerHandle(settings.clickhouse_url)
    from infra.embedded.clickhouse.server import EmbeddedClickHouse
    from newsproof.app.analysts import as_admin, keep_users, users_of

    async def start() -> _ServerHandle:
        refuse_unusable_directory(settings)
        users = users_of(settings, directory)
        server = EmbeddedClickHouse(directory, port=settings.clickhouse_port, users=users)
        await server.start()
        keep_users(directory, users)
        url = f"http://{server.host}:{server.port}"
        write_owner_only(directory / "address", url)
        again = partial(EmbeddedClickHouse, directory, port=server.port, users=users)
        return _ServerHandle(as_admin(url, directory), KeptServer("ClickHouse", server, again))

    async def running() -> str | None:
        url = await running_clickhouse(directory)
        return as_admin(url, directory) if url else None

    return await _running_or_own(running, start)


async def running_clickhouse(directory: Path) -> str | None:
    """Return the URL, without a user, of the embedded ClickHouse of this data directory; None if none runs.

    The file with its address is trusted only while the directory's lock is held and the server responds as ClickHouse
    does.
    """
    written = directory / "address"
    if not _is_there(written):
        return None
    lock = DirectoryLock(directory, what="ClickHouse")
    try:
        lock.acquire(patience_s=0)
    except ConfigError:
        url = written.read_text("ascii").strip()
        return url if await _pings(url) else None
    lock.release()
    return None


def is_embedded_here(settings: Settings) -> bool:
    """Return whether ``CLICKHOUSE_URL`` is the embedded engine of this data directory, which holds its passwords."""
    written = settings.newsproof_data_dir / "clickhouse" / "address"
    try:
        ours = urlsplit(written.read_text("ascii").strip())
    except (OSError, ValueError):
        return False
    there = urlsplit(settings.clickhouse_url or "")
    return (ours.hostname, ours.port) == (there.hostname, there.port)


async def _pings(url: str) -> bool:
    import httpx

    try:
        async with httpx.AsyncClient(trust_env=False, timeout=_PROBE_S) as http:
            reply = await http.get(f"{url}/ping")
    except (httpx.HTTPError, httpx.InvalidURL):
        return False
    return reply.status_code == 200 and reply.text == "Ok.\n"


async def _running_or_own(
    running: Callable[[], Awaitable[str | None]], start: Callable[[], Awaitable[_ServerHandle]]
) -> _ServerHandle:
    """Use the running server; otherwise start one, or wait for it if another command is starting one."""
    deadline = asyncio.get_running_loop().time() + _OTHERS_START_S
    while True:
        if (address := await running()) is not None:
            return _ServerHandle(address)
        try:
            return await start()
        except ConfigError as exc:
            late = asyncio.get_running_loop().time() > deadline
            if "already runs on" not in str(exc) or late:
                raise
        await asyncio.sleep(0.2)


# The data directory


async def with_data(settings: Settings, *, given: bool, say: Say = say_on_stderr, must_exist: bool = True) -> Settings:
    """Return the settings with the data directory that a reading command should use.

    ``given``: the user named one, which is used. Otherwise it is the default directory if it holds a log, else the
    demo's, so that reading commands work after ``newsproof demo``. A directory with a running server takes precedence.
    ``must_exist`` False: the command brings its own log and writes its results, so the directory may be new.

    Raises:
        ConfigError: the user named a directory that does not exist, and no server elsewhere.
    """
    directory = settings.newsproof_data_dir
    if (
        must_exist
        and given
        and not directory.exists()
        and not (settings.kafka_bootstrap_servers or settings.clickhouse_url)
    ):
        raise ConfigError(
            f"the data directory {directory} does not exist, so there is nothing to read: correct --data-dir (or NEWSPROOF_DATA_DIR), "
            "or create it with `newsproof up`"
        )
    if given or settings.kafka_bootstrap_servers or settings.clickhouse_url:
        return settings
    demo = directory / DEMO
    if await running_kafka(directory / "kafka") or not (demo / "kafka" / "cluster-id").exists():
        return settings
    if (directory / "kafka" / "cluster-id").exists() and not await running_kafka(demo / "kafka"):
        return settings
    say(reading_demo(demo))
    return settings.model_copy(update={"newsproof_data_dir": demo})


def reading_demo(demo: Path) -> str:
    """Return the message of a command that reads the demo's log without being told to."""
    return f"Reading the demo's data in {demo}. Use --data-dir to read another directory."
