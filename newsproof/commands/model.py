"""Commands around models: the scripted server, the acceptance run, shadow prompts."""

from __future__ import annotations

from typing import Annotated

import typer

from newsproof.invocation import of, run

HERE = "Prompts and models"


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command("model-server", rich_help_panel=HERE)(model_server)
    app.command(rich_help_panel=HERE)(acceptance)


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


def acceptance(
    ctx: typer.Context,
    scripted: Annotated[
        bool, typer.Option("--scripted", help="The scripted server although live providers are configured.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one last line of JSON instead of tables.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown tables.")] = False,
) -> None:
    """Send 16 messages of eight kinds through the pipeline; latency, calls, tokens and cost beside the targets.

    Asks the configured live providers, which costs money; without a key the scripted model server.
    """
    from newsproof.acceptance.run import acceptance as run_acceptance

    status = run(run_acceptance(of(ctx).settings(), scripted=scripted, as_json=as_json, markdown=markdown))
    raise typer.Exit(status)
