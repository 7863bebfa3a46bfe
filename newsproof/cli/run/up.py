"""``newsproof up``: runs the pipeline in one process tree until a signal ends it."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from infra.owner_only import write_owner_only
from newsproof.app.invocation import of, run
from newsproof.app.servers import running_clickhouse
from newsproof.app.servers import say_on_stderr as say
from newsproof.app.terminal import as_started, command_name
from newsproof.cli.options import PagePort, commands, option
from schemas.errors import ConfigError

if TYPE_CHECKING:
    from infra.embedded.child import DirectoryLock
    from infra.settings import Settings
    from newsproof.app.processes.supervisor import Pipeline

app = commands()
ENDING = "Stopping in order. Press Ctrl-C again to stop at once."
_EXAMPLE = """echo '{"source": "me", "text": "SEC approves 11 spot Bitcoin exchange-traded products"}'"""
"""A line of the sample: told in these words, it is confirmed offline on any day. An item without a date is of now."""
_HOLDER = "holder.json"
"""File beside the lock of ``up`` that names its holder."""


@app.command()
def up(
    ctx: typer.Context,
    workers: Annotated[int, option("Number of worker processes.", min=1, max=64)] = 1,
    port: PagePort = None,
    listen: Annotated[bool, option("Also poll real news sources, as LISTEN=true does.", "--listen")] = False,
) -> None:
    """Run the whole pipeline in one process tree until Ctrl-C.

    Starts workers, sink and page, and the embedded Kafka and ClickHouse unless others are configured.
    """
    given: dict[str, object] = {} if port is None else {"web_port": port}
    settings = of(ctx).settings(**given, **({"listen": True} if listen else {}))
    run(run_up(settings, workers=workers), ending=ENDING)


class _Phases:
    """Prints the progress of the start, with the seconds since it began, and later that of the shutdown."""

    def __init__(self) -> None:
        self._began: float | None = time.monotonic()

    def __call__(self, text: str) -> None:
        say(f"          {text}" if self._began is None else f"  {time.monotonic() - self._began:5.1f} s {text}")

    def started(self) -> None:
        self._began = None


class _Holder(msgspec.Struct, frozen=True):
    """The process that runs ``up`` on a data directory. ``page``: its address, without the token; "" until it is open."""

    pid: int
    since: str
    page: str


async def run_up(settings: Settings, *, workers: int) -> None:
    """Run the pipeline until cancelled.

    Raises:
        NewsproofError: the pipeline cannot start; the text says what to correct.
    """
    from pydantic import SecretStr

    from newsproof.app.composition import refuse_unusable
    from newsproof.app.processes.supervisor import pipeline, watched
    from newsproof.app.research_composition import refuse_unusable_research
    from newsproof.web.server import opened, tls_of
    from newsproof.web.tokens import opened_with, token_of

    changes = settings.defaults_of_up
    at = settings.model_copy(update=changes)
    refuse_unusable(at)
    refuse_unusable_research(at)
    if at.listen:
        _listener_in_words(at)
    tls_of(at)  # to refuse an unusable certificate before anything starts
    phases = _Phases()
    try:
        with _place(at) as (lock, begun):
            await _refuse_taken_ports(at, workers)
            # Opened before anything starts, and held until the end: no other program can take the port and get the token.
            with opened(at) as listening:
                token, page = token_of(at), at.page_at(port := listening.getsockname()[1])
                _tell_others(lock, page)
                address = opened_with(page, at, token, terminal=sys.stderr.isatty())
                # The page gets the token as a setting: the address that it prints goes to a log, and holds no token.
                at = at.model_copy(update={"web_port": port, "web_token": SecretStr(token)})
                say(f"Starting in {at.newsproof_data_dir} …")
                begun()
                async with pipeline(at, workers=workers, page=listening, phase=phases) as running:
                    await watched(
                        running, _run(running, page, lambda: _print_started(running, address, changes, workers), phases)
                    )
    except asyncio.CancelledError:
        if at.newsproof_data_dir.exists():
            say(f"Stopped. The data stays in {at.newsproof_data_dir}.")
        raise


@contextlib.contextmanager
def _place(at: Settings) -> Iterator[tuple[DirectoryLock, Callable[[], object]]]:
    """Hold the data directory. Remove what was created, unless the second value is called."""
    from infra.embedded.child import DirectoryLock
    from newsproof.app.data_dir import refuse_unusable_directory, remove_empty

    directory = at.newsproof_data_dir
    made: list[Path] = []
    with contextlib.suppress(OSError):  # directories that cannot be read are refused below
        made = [one for one in (directory, *directory.parents) if not one.exists()]
    lock = DirectoryLock(directory / "up", what="`newsproof up`")
    with contextlib.ExitStack() as held, contextlib.ExitStack() as undone:
        undone.callback(remove_empty, made)
        refuse_unusable_directory(at)
        _take(lock)
        held.callback(lock.release)
        held.callback((lock.directory / _HOLDER).unlink, missing_ok=True)
        if made:
            undone.callback(shutil.rmtree, lock.directory, ignore_errors=True)
        yield lock, undone.pop_all


async def _run(running: Pipeline, page: str, print_started: Callable[[], None], phases: _Phases) -> None:
    from newsproof.app.data_dir import RoomWatch

    phases(f"starting {', '.join(one.name for one in running.services)}")
    await _page_responds(page)
    phases("the page is ready")
    phases.started()
    print_started()
    await RoomWatch(running.settings).run(say)


async def _page_responds(page: str) -> None:
    """Return once the page responds."""
    import httpx

    # Our own socket: whatever its certificate says, nobody else can respond there.
    async with httpx.AsyncClient(trust_env=False, verify=False, timeout=None) as http:
        while True:
            with contextlib.suppress(httpx.TransportError):
                await http.get(f"{page}healthz")
                return
            await asyncio.sleep(0.1)


def _take(lock: DirectoryLock) -> None:
    """Take the lock of ``up``. Raises ConfigError that names its holder."""
    try:
        lock.acquire()
    except ConfigError as exc:
        try:
            holder = msgspec.json.decode((lock.directory / _HOLDER).read_bytes(), type=_Holder)
        except (OSError, msgspec.MsgspecError):
            raise exc from None
        raise ConfigError(
            f"`newsproof up` already runs on {lock.directory.parent}: PID {holder.pid}, since {holder.since}, page {holder.page}. "
            f"Use that one, stop it (kill -INT {holder.pid}), or choose another data directory (--data-dir)"
        ) from exc
    # A killed run leaves its file. The process named there must not be stopped in our place.
    (lock.directory / _HOLDER).unlink(missing_ok=True)


def _tell_others(lock: DirectoryLock, page: str) -> None:
    holder = _Holder(os.getpid(), datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"), page)
    write_owner_only(lock.directory / _HOLDER, msgspec.json.encode(holder).decode())


async def _refuse_taken_ports(settings: Settings, workers: int) -> None:
    """Raise ConfigError if the children cannot open one of their ports. ``up`` itself opens the page's port."""
    from infra.embedded.child import port_owner, why_not_bound
    from infra.embedded.clickhouse.server import EmbeddedClickHouse

    wanted = []
    if settings.metrics_port:
        # Workers, the sink, the chat's worker and the listener.
        count = workers + 2 + settings.listen
        wanted = [("METRICS_PORT", settings.metrics_host, settings.metrics_port + n) for n in range(count)]
    running = await running_clickhouse(settings.newsproof_data_dir / "clickhouse")
    if settings.clickhouse_port and not settings.clickhouse_url and running is None:
        wanted.append(("CLICKHOUSE_PORT", EmbeddedClickHouse.host, settings.clickhouse_port))
    for name, host, port in wanted:
        if (exc := why_not_bound(port, host)) is not None:
            why, otherwise = f"is in use by {port_owner(port)}", "stop that process"
            if exc.errno != errno.EADDRINUSE:
                why = f"cannot be opened ({exc.strerror})"
                otherwise = "correct METRICS_HOST" if name == "METRICS_PORT" else "unset it for any free port"
            raise ConfigError(f"port {port} of {host} ({name}) {why}: choose another port, or {otherwise}") from exc


def _print_started(running: Pipeline, page: str, changes: dict[str, object], workers: int) -> None:
    from newsproof.app.composition import mode_in_words, search_in_words

    settings = running.settings
    own = running.servers.own
    say("")
    say(f"Newsproof runs: {mode_in_words(settings)}. Workers: {workers}. Press Ctrl-C to stop everything.")
    if searching := search_in_words(settings):
        say(f"  Search      {searching}")
    say(f"  Page        {page}")
    say(f"  Kafka       {settings.kafka_bootstrap_servers}{'  (embedded)' if 'kafka' in own else ''}")
    say(
        f"  ClickHouse  {_without_password(settings.clickhouse_url or '')}{'  (embedded)' if 'clickhouse' in own else ''}"
    )
    say(f"  Logs        {settings.newsproof_data_dir / 'logs'}")
    if settings.listen:
        say(f"  Listener    {_listener_in_words(settings)}")
    for name, value in changes.items():
        say(f"  {name.upper()}={value} was set by `up`, because you did not set it")
    say("")
    command = command_name()
    say("In another terminal, in this directory:")
    say(f"  {_EXAMPLE} | {command} publish -")
    say(f"  {command} signals --follow")
    say(f"  {command} cases;  {command} case ID;  {command} audit")
    say(f'  {command} sql "SELECT * FROM v_cost_by_step"')
    if "kafka" in own:
        say(f"  {command} kafka    (login for other Kafka clients)")


def _listener_in_words(settings: Settings) -> str:
    """Return the sources that are polled, and what that costs. Raises ConfigError: the sources are invalid."""
    from newsproof.app.processes.listening import COSTS, Sources  # takes half a second, and only `--listen` needs it

    sources = Sources(settings)
    left_out = f", without {', '.join(sources.lacking)}" if sources.lacking else ""
    return as_started(f"{len(sources())} sources{left_out}: `newsproof sources` shows their state. {COSTS}")


def _without_password(url: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"
