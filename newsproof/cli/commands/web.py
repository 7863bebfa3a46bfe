"""``newsproof web``: the page and the HTTP API."""

from __future__ import annotations

from typing import Annotated

import typer

from newsproof.app.invocation import Invocation, of, run


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command()(web)


def web(
    ctx: typer.Context,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Port of the page. 0: a free port. Default: WEB_PORT.", show_default=False),
    ] = None,
    listening: Annotated[int | None, typer.Option(hidden=True, help="Descriptor of the socket to serve.")] = None,
) -> None:
    """Serve the page and the HTTP API until Ctrl-C.

    Runs beside `up`, on configured servers, or on the data of an earlier run.
    """
    invocation = of(ctx)
    settings = invocation.settings(**({} if port is None else {"web_port": port}))
    run(_web(invocation, port, listening), service=settings)


async def _web(invocation: Invocation, port: int | None, listening: int | None) -> None:
    from socket import socket

    from newsproof.app.processes.lifecycle import shutdown_on_signal
    from newsproof.app.processes.supervisor import prepare_tables, prepare_topics
    from newsproof.app.servers import servers, with_data
    from newsproof.web.service import serve

    ending = shutdown_on_signal()
    given = invocation.settings(**({} if port is None else {"web_port": port}))
    settings = await with_data(given, given=invocation.data_dir_given)
    if settings.kafka_bootstrap_servers:  # as a service: servers that are away are waited for
        await serve(settings, ending, listening=None if listening is None else socket(fileno=listening))
        return
    async with servers(settings) as found:
        at = found.applied_to(settings)
        await prepare_topics(at)
        if "clickhouse" in found.own:
            await prepare_tables(at)
        await serve(at, ending)
