"""The process tree: embedded servers, and workers, sink and page as children. Restarts dead ones; shuts down cleanly.

However this process ends, even by SIGKILL, its children end, too (``infra.embedded.child``).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import sys
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, TypeVar

from pydantic import SecretStr

from infra.clickhouse.migrate import migrate
from infra.embedded.child import ChildProcess, DirectoryLock
from infra.kafka.topics import members_of
from infra.listeners.mark import listener_key
from infra.owner_only import make_owner_only
from infra.settings import Settings
from newsproof.app.composition import address_of, clickhouse_of, prepare_topics, topics_of
from newsproof.app.processes.targets import FOLDER
from newsproof.app.restarting import Backoff, KeptServer, for_want_of_room
from newsproof.app.servers import Prepare, Say, Servers, running_kafka, say_on_stderr, servers
from schemas.errors import ConfigError

T = TypeVar("T")

PROJECT = Path(__file__).resolve().parents[3]
MUST_BE_MENDED = 2
"""Exit status of a configuration error (``newsproof.app.exits``): a restart would fail again."""
STOP_S = 25.0
SAYS = "newsproof: "
"""Prefix of the command line's error messages."""
PARTS = ("kafka", "clickhouse", "slots", "logs")
"""Contents of the directory of a demo or an acceptance run. Nothing else in it is ever deleted."""


class Service:
    """One child: ``newsproof NAME …``. :meth:`keep` runs and restarts it until cancelled."""

    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        *,
        env: Mapping[str, str],
        log_file: Path,
        keep_fds: Sequence[int] = (),
    ) -> None:
        self.name = name
        self.restarts = 0
        self._arguments = list(arguments)
        # Not the user's directory, whose .env file would override the settings that we pass.
        self.child = ChildProcess(name, [], log_file=log_file, env=env, cwd=log_file.parent, keep_fds=keep_fds)

    def start(self, *, take_over: bool) -> None:
        """Start the process. ``take_over``: its slot's former process is known to have ended."""
        more = ["--take-over"] if take_over and self._arguments[0].endswith("worker") else []
        self.child.command = [sys.executable, "-P", "-m", "newsproof", *self._arguments, *more]
        self.child.start()

    async def keep(self, say: Say) -> None:
        """Restart the process whenever it ends, with backoff.

        Raises:
            ConfigError: it ended with a configuration error, whose message is the text.
        """
        loop = asyncio.get_running_loop()
        backoff = Backoff()
        while True:
            started = loop.time()
            status = await self.child.wait()
            last = self._last_words()
            if status == MUST_BE_MENDED:
                raise ConfigError(f"{self.name} refuses to start: {last}\nIts log: {self.child.log_file}")
            wait = backoff.after_run_of(loop.time() - started)
            self.restarts += 1
            room = for_want_of_room(self.child.log_file.parent)
            say(f"{self.name} ended with status {status}{room} ({last[:200]}); restarting it in {wait:g} s")
            await asyncio.sleep(wait)
            self.start(take_over=True)

    def _last_words(self) -> str:
        """Return the command line's error message, or else the last line of the log."""
        lines = self.child.log_tail(50).splitlines()
        begins = [number for number, line in enumerate(lines) if line.startswith(SAYS)]
        if not begins:
            return (lines or ["it logged nothing"])[-1]
        words = takewhile(lambda line: not line.startswith("{"), lines[begins[-1] :])  # an error of several settings
        return " ".join(line.strip() for line in words).removeprefix(SAYS)

    async def stop(self) -> None:
        """Shut it down cleanly."""
        await self.child.stop(timeout_s=STOP_S)


class Pipeline:
    """A running installation. ``settings`` hold the addresses in use."""

    def __init__(self, settings: Settings, running: Servers, services: list[Service], say: Say) -> None:
        self.settings = settings
        self.servers = running
        self.services = services
        self._say = say

    async def watch(self) -> None:
        """Keep the children and this command's embedded servers running until cancelled.

        Raises:
            ConfigError: a child ended with a configuration error.
        """
        kept: list[KeptServer | Service] = [*self.servers.kept, *self.services]
        tasks = [asyncio.create_task(kept_server.keep(self._say), name=kept_server.name) for kept_server in kept]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.asynccontextmanager
async def pipeline(
    settings: Settings,
    *,
    workers: int = 1,
    page: socket.socket | None = None,
    research: bool = False,
    sources: Sequence[str] = (),
    say: Say = say_on_stderr,
    phase: Say = lambda _text: None,
) -> AsyncIterator[Pipeline]:
    """Start servers, topics, tables, workers and sink; stop all of them in reverse order.

    The children get exactly these settings, whatever the environment or a ``.env`` file holds. ``page``: a listening
    socket for the web service, which the caller still owns. With it, or with ``research``, the research chat's worker
    starts, too; with LISTEN, the listener. ``phase`` receives messages about the progress of start and shutdown.

    Raises:
        ConfigError, TransientError: as for :func:`newsproof.app.servers.servers`.
    """
    # Each as soon as its server responds: ClickHouse is ready seconds before Kafka.
    prepare: dict[str, Prepare] = {"kafka": prepare_topics, "clickhouse": prepare_tables}
    async with servers(settings, say=say, phase=phase, prepare=prepare) as running:
        at = running.applied_to(settings)
        listener_key(at)  # created before any worker looks for it
        phase("topics and tables are ready")
        services = _services(at, workers, page, research=research or page is not None, sources=sources)
        others = [other for other in services if other.name != "sink"]
        try:
            for service in services:
                # Workers of an embedded Kafka share this data directory, whose slot files show a taken slot.
                service.start(take_over=running.embedded_kafka)
            yield Pipeline(at, running, services, say)
        finally:
            phase(f"stopping {', '.join(other.name for other in others)}")
            await asyncio.gather(*(other.stop() for other in others))
            phase("stopping sink")
            await asyncio.gather(*(other.stop() for other in services if other not in others))


@contextlib.asynccontextmanager
async def alongside(*work: Coroutine[Any, Any, object]) -> AsyncIterator[None]:
    """Run this work during the block. The first that fails ends the block with its error."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(part) for part in work]
            yield
            for task in tasks:
                task.cancel()
    except BaseExceptionGroup as exc:
        raise exc.exceptions[0] from None


async def watched(running: Pipeline, work: Coroutine[Any, Any, T]) -> T:
    """Run the work while the children are kept running. A child's configuration error ends it."""
    async with alongside(running.watch()):
        return await work


@contextlib.asynccontextmanager
async def installation(
    settings: Settings, group: str, *, starting: str, workers: int, research: bool = False
) -> AsyncIterator[tuple[Settings, bool]]:
    """Yield the settings of an installation whose consumer group has a member, and whether this command started it.

    It is the one that runs on the data directory, else one that this command starts and stops. ``group``: without the
    prefix. ``starting`` is said before an installation of ``workers`` starts.

    Raises:
        ConfigError, TransientError: as for :func:`pipeline`.
    """
    if settings.kafka_bootstrap_servers or await running_kafka(settings.newsproof_data_dir / "kafka"):
        async with servers(settings, clickhouse=False) as running:
            at = running.applied_to(settings)
            if await members_of(address_of(at), topics_of(at).group(group)):
                yield at, False
                return
    say_on_stderr(starting)
    async with pipeline(settings, workers=workers, research=research) as own, alongside(own.watch()):
        yield own.settings, True


def empty(directory: Path) -> None:
    """Delete the data of an earlier demo or acceptance run.

    Raises:
        ConfigError: a demo still runs there.
    """
    locks = [DirectoryLock(directory / part, what="The demo") for part in PARTS[:2]]
    try:
        for lock in locks:
            lock.acquire()
        for part in PARTS:
            shutil.rmtree(directory / part, ignore_errors=True)
    finally:
        for lock in locks:
            lock.release()


async def prepare_tables(settings: Settings) -> None:
    """Migrate ClickHouse to the latest schema."""
    async with clickhouse_of(settings) as client:
        await migrate(client)


def _services(
    settings: Settings, workers: int, page: socket.socket | None, *, research: bool, sources: Sequence[str] = ()
) -> list[Service]:
    directory = settings.newsproof_data_dir.absolute()
    paths = (str(PROJECT), *os.environ.get("PYTHONPATH", "").split(os.pathsep))
    env = environment_of(settings) | {"PYTHONPATH": os.pathsep.join(dict.fromkeys(filter(None, paths)))}
    # Only for the page: empty for other children, which must not inherit it from this process's environment either.
    token, env["WEB_TOKEN"] = env["WEB_TOKEN"], ""
    if page is not None and settings.metrics_port is None:  # the page reads the health of each process
        settings = settings.model_copy(update={"metrics_port": 0})
    for killed in (directory / FOLDER).glob("*.json"):  # from an earlier run; the folder stays: Prometheus watches it
        killed.unlink(missing_ok=True)
    logs = directory / "logs"
    make_owner_only(logs)
    made = [(f"worker-{n}", "worker", _own(settings, n)) for n in range(workers)]
    fds = () if page is None else (page.fileno(),)
    if research:
        made.append(("research", "research-worker", _port(settings, workers + 1)))
    if page is not None:
        made.append(("web", f"web --listening {page.fileno()}", {"METRICS_PORT": "", "WEB_TOKEN": token}))
    if sources or (page is not None and settings.listen):
        listen = " --source ".join(("listen", *sources))
        made.append(("listener", listen, _port(settings, workers + 2)))
    made.append(("sink", "sink", _port(settings, workers)))
    return [
        Service(
            name, command.split(), env=env | own, log_file=logs / f"{name}.log", keep_fds=fds if name == "web" else ()
        )
        for name, command, own in made
    ]


def _own(settings: Settings, number: int) -> dict[str, str]:
    """Return a worker's own settings: its slot, and its metrics port."""
    return {"WORKER_SLOT": str(number)} | _port(settings, number)


def _port(settings: Settings, number: int) -> dict[str, str]:
    first = settings.metrics_port
    return {"METRICS_PORT": "" if first is None else str(first and first + number)}


def environment_of(settings: Settings) -> dict[str, str]:
    """Return all settings as environment variables; unset ones are empty. A mapping becomes one variable per entry."""
    environment: dict[str, str] = {}
    for name in Settings.model_fields:
        value = getattr(settings, name)
        if isinstance(value, dict):
            environment |= {f"{name}_{entry}".upper(): _as_text(entry_value) for entry, entry_value in value.items()}
        else:
            environment[name.upper()] = _as_text(value)
    return environment


def _as_text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    return str(value.absolute() if isinstance(value, Path) else value)
