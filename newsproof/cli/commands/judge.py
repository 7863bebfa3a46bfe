"""The command that judges the verification: eval."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from newsproof.app.invocation import of
from newsproof.cli.options import commands

app = commands()


@app.command("eval")
def evaluate(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(help="Judged cases, one JSON object per line.")],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on the last line of standard output.")
    ] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the totals as a Markdown table.")] = False,
    model: Annotated[
        bool,
        typer.Option(
            "--model",
            help="Run the steps from the search on with the configured models. Without a key: the scripted model "
            "server.",
        ),
    ] = False,
    oracle: Annotated[
        Path | None,
        typer.Option(help="Use a careful reader's stances from this file instead of the critic's, one case per line."),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with status 1 if a judged field is wrong.")] = False,
) -> None:
    """Test the evidence rules on judged cases, and compare them with plain source counting.

    Uses no model and no network, except with --model. See docs/verification.md.
    """
    from evaluation.eval.report import show_evaluation

    raise typer.Exit(
        show_evaluation(of(ctx), file, as_json=as_json, markdown=markdown, strict=strict, model=model, oracle=oracle)
    )
