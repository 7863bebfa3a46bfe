"""``newsproof acceptance``."""

from __future__ import annotations

from typing import Annotated

import typer

from newsproof.app import exits
from newsproof.app.invocation import UNKEPT, agreed, of, run
from newsproof.cli.options import commands

app = commands()


@app.command()
def acceptance(
    ctx: typer.Context,
    live: Annotated[
        bool,
        typer.Option("--live", help="Call the configured live providers, up to --max-cost. Default: no paid calls."),
    ] = False,
    max_cost: Annotated[
        float, typer.Option("--max-cost", min=0.0, help="Budget of a --live run, in USD. No call may exceed it.")
    ] = 1.0,
    yes: Annotated[bool, typer.Option("--yes", help="Skip the confirmation before a --live run.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on the last line instead of tables.")
    ] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown tables.")] = False,
) -> None:
    """Send 16 messages of eight kinds through the pipeline, and compare latency, calls, tokens and cost with targets.

    Uses the scripted model server, whatever keys are set. With --live, it uses the configured providers.
    """
    from evaluation.acceptance.run import acceptance as run_acceptance
    from evaluation.acceptance.run import live_question
    from newsproof.cli.operate.live_calls import plan_calls, refuse_silent_servers

    settings = of(ctx).settings()
    if live:
        question = live_question(settings, max_cost)
        run(refuse_silent_servers(plan_calls(settings)))
        if not agreed(question, yes=yes):
            raise typer.Exit(exits.OK)
    status = run(
        run_acceptance(settings, max_cost=max_cost if live else None, as_json=as_json, markdown=markdown),
        interrupted=UNKEPT,
    )
    raise typer.Exit(status)
