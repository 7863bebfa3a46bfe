"""The command that judges the verification: eval."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from newsproof.app.invocation import of


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("eval")(evaluate)


def evaluate(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(help="Judged cases, one JSON object a line.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on the last line of output.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="The totals as a Markdown table.")] = False,
    model: Annotated[
        bool,
        typer.Option(
            "--model", help="The graph from its search on, by the configured models; a scripted server without a key."
        ),
    ] = False,
    oracle: Annotated[
        Path | None,
        typer.Option(help="Stances of a careful reader in place of the critic's, one case a line."),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 when a judged field is wrong.")] = False,
) -> None:
    """Judge cases by the rules of evidence, beside plain counting; docs/verification.md. Without model or network."""
    from newsproof.evaluation.eval.report import show_evaluation

    raise typer.Exit(
        show_evaluation(of(ctx), file, as_json=as_json, markdown=markdown, strict=strict, model=model, oracle=oracle)
    )
