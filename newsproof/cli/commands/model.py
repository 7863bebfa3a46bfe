"""Commands around models: the scripted server and shadow prompts."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from newsproof.app.invocation import of, run


class StopRule(StrEnum):
    """On which side of live a shadow run ends by itself."""

    better = "better"
    worse = "worse"
    either = "either"


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command("model-server")(model_server)
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
    from evaluation.compare.watch import parse_watch
    from evaluation.runs.shadow import shadow as run_shadow

    invocation = of(ctx)
    work = run_shadow(
        invocation,
        prompts=prompt,
        budget_usd=budget,
        run_id=run_id,
        on_miss="live" if look_up else "fail",
        watch=parse_watch(metric, stop_when.value if stop_when else ""),
        as_json=as_json,
    )
    raise typer.Exit(run(work, service=invocation.settings()))
