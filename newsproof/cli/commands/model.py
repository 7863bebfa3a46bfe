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
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the server. 0: a free port.")] = 0,
    latency: Annotated[
        str, typer.Option(help="none, or realistic: delays like those of hosted models, derived from the text.")
    ] = "none",
    seed: Annotated[str, typer.Option(help="Random seed of the delays.")] = "0",
) -> None:
    """Run the scripted model server until Ctrl-C.

    It needs no model and no key: rules read the prompt and write the response.
    """
    from newsproof.cli.model_server import serve

    run(serve(of(ctx).settings(), port=port, latency=latency, seed=seed))


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
    from newsproof.cli.doctor.calls import planned
    from newsproof.cli.doctor.live import refuse_silent_servers

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
        list[str],
        typer.Option(
            "--prompt", help="Candidate prompt: NAME=VERSION or NAME=FILE, such as synthesize=v4. Repeatable."
        ),
    ],
    budget: Annotated[float, typer.Option(min=0.0, help="Maximum cost of the run in USD, restarts included.")] = 1.0,
    run_id: Annotated[
        str | None,
        typer.Option("--run-id", help="Name of the run. Default: derived from the candidate.", show_default=False),
    ] = None,
    look_up: Annotated[
        bool,
        typer.Option(
            "--look-up", help="Make the searches that the live case did not make. Default: count them as misses."
        ),
    ] = False,
    metric: Annotated[
        str,
        typer.Option(
            help="Metric to watch, fixed for the whole run: profit@5m, @1h, @4h or @24h, confidence, action_rate."
        ),
    ] = "profit@24h",
    stop_when: Annotated[
        StopRule | None,
        typer.Option(
            help="End the run once its metric is better or worse than live's; fixed for the whole run. Default: never."
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on the last line instead of text.")
    ] = False,
) -> None:
    """Run a candidate prompt on live traffic beside the live prompt, until SIGTERM. It publishes no signals."""
    from evaluation.shadow.main import shadow as run_shadow
    from evaluation.watch.watching import checked_watch

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
