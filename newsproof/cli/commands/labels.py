"""Commands of labels: import, list, remove, and how judgements stand against them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from newsproof.app.invocation import json_line, of, run, say_result
from schemas.printable import counted

group = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="What people found to be true or false, and how judgements stand against it.",
)


def register(app: typer.Typer) -> None:
    """Add the group to the application."""
    app.add_typer(group, name="labels")


@group.command("import")
def import_(
    ctx: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(
            help="CSV whose first line names case, truth, source (and perhaps note, when), or one JSON object of these "
            "a line. truth: true, false, partly or unknown."
        ),
    ] = None,
    source: Annotated[str, typer.Option(help="Who says so, where the file does not.")] = "",
    skip_unknown: Annotated[
        bool, typer.Option("--skip-unknown", help="Leave out what no case is called, instead of refusing the file.")
    ] = False,
    sample: Annotated[bool, typer.Option("--sample", help="The labels that ship for the 42 sample events.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The report as one line of JSON.")] = False,
) -> None:
    """Fill `labels`. All that a source said in an earlier import is replaced; a file with a wrong line changes nothing.

    A case is called by its id, an unambiguous prefix of it, or the news's external id, as for `newsproof case`.
    """
    from newsproof.cli.data.labels import import_labels, print_import
    from newsproof.evaluation.labels.file import read_labels, sample_labels
    from schemas.errors import ConfigError

    if (file is not None) == sample:
        raise ConfigError("say where labels come from: a CSV or JSONL file, or --sample (one of them)")
    labels = sample_labels() if file is None else read_labels(file, source=source)
    done = run(import_labels(of(ctx), labels, skip_unknown=skip_unknown))
    json_line(done) if as_json else print_import(done)


@group.command("list")
def list_(
    ctx: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="JSON on standard output, one source a line.")] = False,
) -> None:
    """List who labelled cases, and how."""
    from newsproof.cli.data.labels import list_sources, print_sources

    found = run(list_sources(of(ctx)))
    if not as_json:
        print_sources(found)
        return
    for one in found:
        json_line(one)


@group.command()
def remove(
    ctx: typer.Context,
    source: Annotated[str, typer.Argument(help="As `labels list` prints it.")],
) -> None:
    """Delete all that one source said, in every import."""
    from newsproof.cli.data.labels import remove as removed

    say_result(f"{counted(run(removed(of(ctx), source)), 'label')} of {source} deleted.")


@group.command()
def report(
    ctx: typer.Context,
    run_id: Annotated[str, typer.Argument(metavar="[RUN]", help="A backtest's run id, or `live`.")] = "live",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Say how often a run confirmed what was false or refuted what was true, and how good its confidence was."""
    from newsproof.cli.data.labels import print_report
    from newsproof.cli.data.labels import report as reported

    found = run(reported(of(ctx), run_id))
    json_line(found) if as_json else print_report(found)
