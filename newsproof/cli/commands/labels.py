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
    help="Import and report what people found to be true or false.",
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
            help="CSV file with the columns case, truth, source (optional: note, when), or a file with one such "
            "JSON object per line. truth is true, false, partly or unknown."
        ),
    ] = None,
    source: Annotated[str, typer.Option(help="Source of the labels, if the file does not name it.")] = "",
    skip_unknown: Annotated[
        bool, typer.Option("--skip-unknown", help="Skip labels of unknown cases instead of rejecting the file.")
    ] = False,
    sample: Annotated[
        bool, typer.Option("--sample", help="Import the bundled labels of the 42 sample events.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as one line of JSON.")] = False,
) -> None:
    """Import labels into the table `labels`.

    Replaces all earlier labels of the same source. A file with a wrong line changes nothing.

    A case is named by its id, a unique prefix of the id, or the external id of its news, as in `newsproof case`.
    """
    from evaluation.labels.label_file import read_labels, sample_labels
    from newsproof.cli.data.labels import import_labels, print_import
    from schemas.errors import ConfigError

    if (file is not None) == sample:
        raise ConfigError("say where labels come from: a CSV or JSONL file, or --sample (one of them)")
    labels = sample_labels() if file is None else read_labels(file, source=source)
    done = run(import_labels(of(ctx), labels, skip_unknown=skip_unknown))
    json_line(done) if as_json else print_import(done)


@group.command("list")
def list_(
    ctx: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one source per line.")] = False,
) -> None:
    """List the sources of labels, with counts."""
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
    source: Annotated[str, typer.Argument(help="Source name from `labels list`.")],
) -> None:
    """Delete all labels of one source."""
    from newsproof.cli.data.labels import remove as removed

    say_result(f"{counted(run(removed(of(ctx), source)), 'label')} of {source} deleted.")


@group.command()
def report(
    ctx: typer.Context,
    run_id: Annotated[str, typer.Argument(metavar="[RUN]", help="Run id of a backtest, or `live`.")] = "live",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Report how often a run confirmed false claims or refuted true ones, and how accurate its confidence was."""
    from newsproof.cli.data.labels import print_report
    from newsproof.cli.data.labels import report as reported

    found = run(reported(of(ctx), run_id))
    json_line(found) if as_json else print_report(found)
