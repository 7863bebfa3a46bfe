"""Commands that run one part of the pipeline: worker, research-worker, sink, web, model-server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from newsproof.app.invocation import Invocation, of, run
from newsproof.app.sheet import say_result
from newsproof.cli.options import PagePort, command, commands, option

if TYPE_CHECKING:
    from infra.settings import Settings

app = commands()
TakeOver = Annotated[
    bool,
    option(
        "Do not wait for Kafka's session timeout. Use it only if the slot's previous worker has certainly ended.",
        "--take-over",
    ),
]


@app.command()
def worker(ctx: typer.Context, take_over: TakeOver = False) -> None:
    """Run one worker, and a publisher beside it, on configured servers until SIGTERM."""
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
    async with servers(settings) as found:
        at = found.applied_to(settings)
        await prepare_topics(at)
        if "clickhouse" in found.own:
            await prepare_tables(at)
        await serve(at, ending)


@command(app)
async def mcp(invocation: Invocation) -> None:
    """Serve an agent by the Model Context Protocol on standard input and output, until the input ends.

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
    async with servers(settings, clickhouse=False) as found:
        backend = Backend(found.applied_to(settings).model_copy(update={"clickhouse_url": tables}))
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
