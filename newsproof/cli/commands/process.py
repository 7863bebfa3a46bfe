"""Commands that run the pipeline: up, worker, research-worker, sink, demo."""

from __future__ import annotations

from typing import Annotated

import typer

from newsproof.app.invocation import of, run
from schemas.errors import ConfigError

ENDING = "Stopping in order. Press Ctrl-C again to stop at once."
TakeOver = Annotated[
    bool,
    typer.Option(
        "--take-over",
        help="Do not wait for Kafka's session timeout. Use it only if the slot's previous worker has certainly ended.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command()(up)
    app.command()(demo)
    app.command()(worker)
    app.command("research-worker")(research_worker)
    app.command()(sink)


def up(
    ctx: typer.Context,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Number of worker processes.")] = 1,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Port of the page. 0: a free port. Default: WEB_PORT.", show_default=False),
    ] = None,
    listen: Annotated[bool, typer.Option("--listen", help="Also poll real news sources, as LISTEN=true does.")] = False,
) -> None:
    """Run the whole pipeline in one process tree until Ctrl-C.

    Starts workers, sink and page, and the embedded Kafka and ClickHouse unless others are configured.
    """
    from newsproof.cli.up import up as run_up

    given: dict[str, object] = {} if port is None else {"web_port": port}
    settings = of(ctx).settings(**given, **({"listen": True} if listen else {}))
    run(run_up(settings, workers=workers), ending=ENDING)


def demo(
    ctx: typer.Context,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the pipeline running after the report, until Ctrl-C.")
    ] = False,
    live: Annotated[
        bool, typer.Option("--live", help="Use real models and search, which costs money. Default: offline.")
    ] = False,
    listen: Annotated[
        bool,
        typer.Option(
            "--listen", help="Read the events from a local newsroom instead of publishing them. Takes about a minute."
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on the last line instead of tables.")
    ] = False,
) -> None:
    """Send 42 real news items through the whole pipeline on embedded servers, and print a report."""
    from newsproof.cli.demo import demo as run_demo
    from newsproof.cli.listening_demo import listening_demo

    if live and listen:
        raise ConfigError("--listen replays past news as of today, which only offline mode can judge: leave out --live")
    settings = of(ctx).settings()
    chosen = (
        listening_demo(settings, keep=keep, as_json=as_json)
        if listen
        else run_demo(settings, keep=keep, live=live, as_json=as_json)
    )
    raise typer.Exit(run(chosen, ending=ENDING))


def worker(
    ctx: typer.Context,
    take_over: TakeOver = False,
) -> None:
    """Run one worker, and a publisher beside it, on configured servers until SIGTERM."""
    from newsproof.app.processes.services import run_worker

    settings = of(ctx).settings()
    run(run_worker(settings, take_over=take_over), service=settings)


def research_worker(
    ctx: typer.Context,
    take_over: TakeOver = False,
) -> None:
    """Run one worker for the research chat and investigations, on configured servers until SIGTERM."""
    from newsproof.app.processes.research import run_research

    settings = of(ctx).settings()
    run(run_research(settings, take_over=take_over), service=settings)


def sink(ctx: typer.Context) -> None:
    """Run the sink, which copies the log into ClickHouse, on configured servers until SIGTERM."""
    from newsproof.app.processes.services import run_sink

    settings = of(ctx).settings()
    run(run_sink(settings), service=settings)
