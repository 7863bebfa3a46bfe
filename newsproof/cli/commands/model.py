"""Commands around models: the scripted server, the acceptance run, shadow prompts."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from newsproof.app import exits
from newsproof.app.invocation import UNKEPT, agreed, of, run


class StopRule(StrEnum):
    """On which side of live a shadow run ends by itself."""

    better = "better"
    worse = "worse"
    either = "either"


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command("model-server")(model_server)
    app.command()(acceptance)
    app.command()(shadow)


def model_server(
    ctx: typer.Context,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: a free one.")] = 0,
    latency: Annotated[
        str, typer.Option(help="none, or realistic: as hosted models take, drawn from the text.")
    ] = "none",
    seed: Annotated[str, typer.Option(help="Changes what is drawn.")] = "0",
) -> None:
    """Run the scripted model server (no model, no key: answers by rules that read the prompt) until Ctrl-C."""
    from newsproof.cli.model_server import serve

    run(serve(of(ctx).settings(), port=port, latency=latency, seed=seed))


def acceptance(
    ctx: typer.Context,
    live: Annotated[
        bool, typer.Option("--live", help="Ask the configured live providers, within --max-cost; else nobody is paid.")
    ] = False,
    max_cost: Annotated[
        float, typer.Option("--max-cost", min=0.0, help="USD: the budget of a --live run, which no call may exceed.")
    ] = 1.0,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before a --live run.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one last line of JSON instead of tables.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown tables.")] = False,
) -> None:
    """Send 16 messages of eight kinds through the pipeline; latency, calls, tokens and cost beside the targets.

    The scripted model server answers, whatever keys are set; with --live the configured providers do.
    """
    from newsproof.cli.doctor.calls import planned
    from newsproof.cli.doctor.live import refuse_silent_servers
    from newsproof.evaluation.acceptance.run import acceptance as run_acceptance
    from newsproof.evaluation.acceptance.run import live_question

    settings = of(ctx).settings()
    if live:
        question = live_question(settings, max_cost)
        run(refuse_silent_servers(planned(settings)))
        if not agreed(question, yes=yes):
            raise typer.Exit(exits.OK)
    status = run(
        run_acceptance(settings, max_cost=max_cost if live else None, as_json=as_json, markdown=markdown),
        interrupted=UNKEPT,
    )
    raise typer.Exit(status)


def shadow(
    ctx: typer.Context,
    prompt: Annotated[
        list[str], typer.Option("--prompt", help="NAME=VERSION or NAME=FILE, such as synthesize=v4; may be repeated.")
    ],
    budget: Annotated[float, typer.Option(min=0.0, help="USD that the run may spend, restarts included.")] = 1.0,
    run_id: Annotated[
        str | None, typer.Option("--run-id", help="Of the run; by default made of the candidate.", show_default=False)
    ] = None,
    look_up: Annotated[
        bool, typer.Option("--look-up", help="Searches that the live case did not make are made; else they are misses.")
    ] = False,
    metric: Annotated[
        str,
        typer.Option(
            help="What the run is watched by, chosen now for good: profit@5m, @1h, @4h or @24h, confidence, action_rate."
        ),
    ] = "profit@24h",
    stop_when: Annotated[
        StopRule | None,
        typer.Option(help="End when the metric is so beside live; chosen now, for good. Without: never."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one last line of JSON instead of words.")] = False,
) -> None:
    """Run a candidate prompt beside the live one on live traffic, until SIGTERM; it publishes no signal."""
    from newsproof.evaluation.shadow.main import shadow as run_shadow
    from newsproof.evaluation.watch.watching import checked_watch

    invocation = of(ctx)
    work = run_shadow(
        invocation,
        prompts=prompt,
        budget_usd=budget,
        run_id=run_id,
        on_miss="live" if look_up else "fail",
        watch=checked_watch(metric, stop_when.value if stop_when else ""),
        as_json=as_json,
    )
    raise typer.Exit(run(work, service=invocation.settings()))
