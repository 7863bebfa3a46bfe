"""``newsproof up`` runs the pipeline in one process tree until a signal ends it; the other commands here run one part of it."""

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
from newsproof.app.invocation import Invocation, of, run
from newsproof.app.servers import running_clickhouse
from newsproof.app.servers import say_on_stderr as say
from newsproof.app.sheet import say_result
from newsproof.app.terminal import as_started, command_name
from newsproof.cli.options import PagePort, command, commands, option
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
        made = [path for path in (directory, *directory.parents) if not path.exists()]
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

    phases(f"starting {', '.join(service.name for service in running.services)}")
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


TakeOver = Annotated[
    bool,
    option(
        "Do not wait for Kafka's session timeout. Use it only if the slot's previous worker has certainly ended.",
        "--take-over",
    ),
]


@app.command()
def worker(ctx: typer.Context, take_over: TakeOver = False) -> None:
    """Run one worker, with its publisher, on configured servers until SIGTERM."""
    from newsproof.app.processes.services import run_worker

    settings = of(ctx).settings()
    run(run_worker(settings, take_over=take_over), service=settings)


@app.command("research-worker")
def research_worker(ctx: typer.Context, take_over: TakeOver = False) -> None:
    """Run one worker for the research chat and investigations, on configured servers until SIGTERM."""
    from newsproof.app.processes.services import run_research

    settings = of(ctx).settings()
    run(run_research(settings, take_over=take_over), service=settings)


@app.command()
def sink(ctx: typer.Context) -> None:
    """Run the sink, which copies the log into ClickHouse, on configured servers until SIGTERM."""
    from newsproof.app.processes.services import run_sink

    settings = of(ctx).settings()
    run(run_sink(settings), service=settings)


@app.command()
def web(
    ctx: typer.Context,
    port: PagePort = None,
    listening: Annotated[int | None, option("Descriptor of the socket to serve.", hidden=True)] = None,
) -> None:
    """Serve the page and the HTTP API until Ctrl-C.

    Runs beside `up`, on configured servers, or on the data of an earlier run.
    """
    invocation = of(ctx)
    settings = invocation.settings(**({} if port is None else {"web_port": port}))
    run(_serve_page(invocation, settings, listening), service=settings)


async def _serve_page(invocation: Invocation, given: Settings, listening: int | None) -> None:
    from socket import socket

    from newsproof.app.composition import prepare_topics
    from newsproof.app.processes.lifecycle import shutdown_on_signal
    from newsproof.app.processes.supervisor import prepare_tables
    from newsproof.app.servers import servers, with_data
    from newsproof.web.service import serve

    ending = shutdown_on_signal()
    settings = await with_data(given, given=invocation.data_dir_given)
    if settings.kafka_bootstrap_servers:  # a service waits for servers that are unavailable
        await serve(settings, ending, listening=None if listening is None else socket(fileno=listening))
        return
    async with servers(settings) as running:
        at = running.applied_to(settings)
        await prepare_topics(at)
        if "clickhouse" in running.own:
            await prepare_tables(at)
        await serve(at, ending)


@command(app)
async def mcp(invocation: Invocation) -> None:
    """Serve an AI agent over standard input and output (MCP), until the input ends.

    Uses the pipeline that runs on the data directory. The page of `up` serves the same protocol at /mcp.
    """
    from newsproof.app.servers import running_clickhouse, running_kafka, servers, with_data
    from newsproof.web.backend import Backend
    from newsproof.web.mcp_server import serve_stdio
    from newsproof.web.service import unguarded
    from schemas.errors import ConfigError

    settings = await with_data(invocation.settings(), given=invocation.data_dir_given)
    directory = settings.newsproof_data_dir
    if not settings.kafka_bootstrap_servers and await running_kafka(directory / "kafka") is None:
        raise ConfigError(
            f"no pipeline is running on {directory.absolute()}: start one with `newsproof up` and connect the agent again, or "
            "name another data directory with --data-dir"
        )
    tables = settings.clickhouse_url or await running_clickhouse(directory / "clickhouse")
    async with servers(settings, clickhouse=False) as running:
        backend = Backend(running.applied_to(settings).model_copy(update={"clickhouse_url": tables}))
        await serve_stdio(unguarded(backend), backend)


@app.command("model-server")
def model_server(
    ctx: typer.Context,
    port: Annotated[int, option("Port of the server. 0: a free port.", min=0, max=65535)] = 0,
    latency: Annotated[
        str, option("none, or realistic: delays like those of hosted models, derived from the text.")
    ] = "none",
    seed: Annotated[str, option("Random seed of the delays.")] = "0",
    wait_env: Annotated[
        Path | None,
        option(
            "Start no server, but wait up to 60 s until the one whose output goes to FILE has started.",
            metavar="FILE",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Run the scripted model server until Ctrl-C. Its settings go to standard output.

    \b
    newsproof model-server > scripted.env &
    newsproof model-server --wait-env scripted.env
    export $(cat scripted.env)

    It needs no model and no key: rules read the prompt and write the response.
    """
    if wait_env is not None:
        _wait_for_model(wait_env)
        return
    run(_serve_model(of(ctx).settings(), port=port, latency=latency, seed=seed))


WAIT_S = 60.0


def _wait_for_model(file: Path) -> None:
    """Return once the file has the last line of a started server.

    Raises:
        TransientError: it has not after ``WAIT_S``.
    """
    from time import monotonic, sleep

    from schemas.errors import TransientError

    until = monotonic() + WAIT_S
    while not (file.is_file() and "SCRIPTED_MODEL_URL=" in file.read_text("utf-8")):
        if monotonic() > until:
            raise TransientError(
                f"no model server wrote its settings to {file} within {WAIT_S:.0f} s: start one with `newsproof "
                f"model-server > {file} &`, and look at what it says"
            )
        sleep(0.1)


async def _serve_model(settings: Settings, *, port: int, latency: str, seed: str) -> None:
    """Serve until cancelled. The settings that use the server go to standard output, as lines of an environment file.

    Raises:
        ConfigError: the port is in use, or there is no such latency profile.
    """
    from asyncio import get_running_loop
    from typing import get_args

    from infra.offline.scripted.server import ScriptedServer
    from infra.offline.scripted.stance import Profile
    from newsproof.app.servers import say_on_stderr as say
    from schemas.errors import ConfigError

    profile: Profile | None = next((known for known in get_args(Profile) if known == latency), None)
    if profile is None:
        raise ConfigError(f"--latency is {latency!r}: write one of {', '.join(get_args(Profile))}")
    async with ScriptedServer(port=port, latency=profile, seed=seed) as server:
        say("This is a SCRIPTED model server: rules write its responses, not a model. Use it with these settings:")
        say_result(f"NEWSPROOF_MODE=simulated\nSCRIPTED_MODEL_URL={server.url}")
        if settings.mode == "live":
            say("Set NEWSPROOF_MODE=simulated: with your keys, the current mode is live.")
        await get_running_loop().create_future()
