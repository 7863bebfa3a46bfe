"""Commands around models: the scripted server, the acceptance run, shadow prompts."""

from __future__ import annotations

from typing import Annotated

import typer

from newsproof.invocation import of, run

HERE = "Prompts and models"


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command("model-server", rich_help_panel=HERE)(model_server)


def model_server(
    ctx: typer.Context,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: a free one.")] = 0,
    latency: Annotated[
        str, typer.Option(help="none, or realistic: as hosted models take, drawn from the text.")
    ] = "none",
    seed: Annotated[str, typer.Option(help="Changes what is drawn.")] = "0",
) -> None:
    """Run the scripted model server (no model, no key: answers by rules that read the prompt) until Ctrl-C."""
    from newsproof.scripted.main import serve

    run(serve(of(ctx).settings(), port=port, latency=latency, seed=seed))
