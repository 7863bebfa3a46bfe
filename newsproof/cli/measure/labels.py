"""``newsproof labels``: stores which claims people found true or false, and compares judgements with them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from newsproof.app.data_access import database
from newsproof.app.invocation import Invocation, of, run
from newsproof.app.sheet import SECOND, UNWRAPPED, Columns, Sheet, advise, json_line, say_result
from newsproof.app.sheet import figures_table as table
from newsproof.cli.options import JsonObject, JsonReport, argument, command, commands, json_flag, option
from schemas.errors import ConfigError
from schemas.printable import counted

if TYPE_CHECKING:
    from evaluation.labels.label_file import Found, LabelFile
    from evaluation.labels.label_report import LabelReport, Score, Share

app = commands()
group = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Import and report what people found to be true or false.",
)
app.add_typer(group, name="labels")
_MAX_LISTED = 12
_NAMES = "give case ids or external ids that `newsproof cases` lists (the demo's cases: --data-dir .data/demo)"


@group.command("import")
def import_(
    ctx: typer.Context,
    file: Annotated[
        Path | None,
        argument(
            "CSV file with the columns case, truth, source (optional: note, when), or a file with one such "
            "JSON object per line. truth is true, false, partly or unknown."
        ),
    ] = None,
    source: Annotated[str, option("Source of the labels, if the file does not name it.")] = "",
    skip_unknown: Annotated[
        bool, option("Skip labels of unknown cases instead of rejecting the file.", "--skip-unknown")
    ] = False,
    sample: Annotated[bool, option("Import the bundled labels of the 42 sample events.", "--sample")] = False,
    as_json: JsonReport = False,
) -> None:
    """Import labels into the table `labels`.

    Replaces all earlier labels of the same source. A file with a wrong line changes nothing.

    A case is named by its id, a unique prefix of the id, or the external id of its news, as in `newsproof case`.
    """
    from evaluation.labels.label_file import read_labels, sample_labels

    if (file is not None) == sample:
        raise ConfigError("give either a CSV or JSONL file of labels, or --sample")
    labels = sample_labels() if file is None else read_labels(file, source=source)
    done = run(import_labels(of(ctx), labels, skip_unknown=skip_unknown))
    json_line(done) if as_json else print_import(done)


@command(group, "list")
async def list_sources(
    invocation: Invocation,
    as_json: Annotated[bool, json_flag("Print JSON, one source per line.")] = False,
) -> None:
    """List the sources of labels, with counts."""
    from evaluation.labels.label_report import sources

    async with database(invocation, admin=True) as client:
        label_sources = await sources(client)
    if not label_sources and not as_json:
        return advise("There are no labels. Import some with `newsproof labels import FILE`.")
    counts = {name: f"said_{name}" for name in ("true", "false", "partly", "unknown")}
    columns: Columns = {"source": "source", "labels": "labels", **counts, "imported (UTC)": ("imported_at", SECOND)}
    Sheet.of(label_sources, columns).show(as_json=as_json, piped=UNWRAPPED)


@command(group, "remove")
async def remove_labels(
    invocation: Invocation,
    source: Annotated[str, argument("Source name from `labels list`.")],
) -> None:
    """Delete all labels of one source.

    Raises:
        ConfigError: there is no such source; the text names the existing ones.
    """
    from evaluation.labels.label_report import forget, sources

    async with database(invocation, admin=True) as client:
        known = [source_row.source for source_row in await sources(client)]
        if source not in known:
            raise ConfigError(f"no labels are from {source!r}: the sources are {', '.join(known) or 'none'}")
        say_result(f"{counted(await forget(client, source), 'label')} of {source} deleted.")


@group.command()
def report(
    ctx: typer.Context,
    run_id: Annotated[str, argument("Run id of a backtest, or `live`.", metavar="[RUN]")] = "live",
    as_json: JsonObject = False,
) -> None:
    """Compare a run's judgements with the labels.

    Reports how often it confirmed false claims or refuted true ones, and how accurate its confidence was.
    """
    label_report = run(compare_labels(of(ctx), run_id))
    json_line(label_report) if as_json else print_report(label_report)


class LabelImport(msgspec.Struct, frozen=True, kw_only=True):
    """Result of an import. ``labels`` by source; ``replaced``: labels of an earlier import of the source, by source.

    ``unknown``: with --skip-unknown, names without a case. ``ignored``: fields of the file that have no meaning here.
    """

    file: str
    labels: dict[str, int]
    replaced: dict[str, int]
    unknown: tuple[str, ...]
    ignored: tuple[str, ...]


async def import_labels(invocation: Invocation, file: LabelFile, *, skip_unknown: bool) -> LabelImport:
    """Store the labels of a file. They replace all earlier labels of their sources.

    Raises:
        ConfigError: a label's case is unknown (unless ``skip_unknown``) or ambiguous; nothing was stored.
    """
    from evaluation.labels.label_file import KnownCase, find_cases
    from evaluation.labels.label_report import keep, known_cases
    from infra.offline.sample_news import sample_news

    async with database(invocation, admin=True) as client:
        known = await known_cases(client)
        ids = {case.case_id for case in known}
        # A run of the bundled log has cases whose news, and so whose names, are in no table.
        known += [KnownCase(n.case_id, n.source, n.external_id or "") for n in sample_news() if n.case_id in ids]
        matches = find_cases(file.labels, known)
        _refuse(file, matches, skip_unknown=skip_unknown)
        replaced = await keep(client, matches.cases)
    return LabelImport(
        file=file.name,
        labels=dict(sorted(Counter(label.source for label, _ in matches.cases).items())),
        replaced=replaced,
        unknown=tuple(label.case for label in matches.unknown),
        ignored=file.ignored,
    )


def _refuse(file: LabelFile, matches: Found, *, skip_unknown: bool) -> None:
    """Refuse names of no or several cases, and two labels by one source for one case under different names."""
    wrong = [
        f"line {label.line}: {label.case!r:.60} matches several cases: {', '.join(ids)}"
        for label, ids in matches.ambiguous
    ]
    if not skip_unknown:
        wrong += [f"line {label.line}: no case has the name {label.case!r:.60}" for label in matches.unknown]
    first: dict[tuple[str, str], int] = {}
    for label, case_id in matches.cases:
        line = first.setdefault((label.source, case_id), label.line)
        if line != label.line:
            wrong.append(f"line {label.line}: {label.source} labels the same case as line {line}")
    if not wrong:
        if not matches.cases:
            raise ConfigError(
                f"{file.name}: nothing was imported, because none of its {len(matches.unknown)} names is that of a case; {_NAMES}"
            )
        return
    listed = "".join(f"\n  {line}" for line in wrong[:_MAX_LISTED])
    more = f"\n  … and {len(wrong) - _MAX_LISTED} more" if len(wrong) > _MAX_LISTED else ""
    leave = ", or skip the others with --skip-unknown" if matches.unknown and not skip_unknown else ""
    raise ConfigError(
        f"{file.name}: nothing was imported, because {len(wrong)} lines do not name exactly one case; {_NAMES}{leave}{listed}{more}"
    )


async def compare_labels(invocation: Invocation, run: str) -> LabelReport:
    """Compare the judgements of a run with the labels.

    Raises:
        ConfigError: the run has no judgements, or none for a labelled case.
    """
    from evaluation.labels.label_report import read_judgements, report_of
    from evaluation.looks import look_at
    from newsproof.report.run_name import run_name

    async with database(invocation, admin=True) as client:
        rows, judgements = await read_judgements(client, run)
        if rows:
            await look_at(client, [run], {"labels": "report"}, rows)
        name = await run_name(client, run)
    if not judgements:
        raise ConfigError(f"run {run!r} has no signals: choose a run of `newsproof backtest list`, or `live`")
    if not rows:
        raise ConfigError(f"no case of run {run!r} has a label: import some with `newsproof labels import FILE`")
    return report_of(run, rows, judgements=judgements, name=name)


def print_import(done: LabelImport) -> None:
    for source, labels in done.labels.items():
        before = f", replacing {done.replaced[source]}" if source in done.replaced else ""
        say_result(f"{counted(labels, 'label')} from {source} ({done.file}){before}")
    if done.unknown:
        listed = ", ".join(done.unknown[:_MAX_LISTED])
        say_result(f"{len(done.unknown)} skipped, because no case has this name: {listed}")
    if done.ignored:
        say_result(f"Ignored fields: {', '.join(done.ignored)}")


def print_report(label_report: LabelReport) -> None:
    from evaluation.labels.label_report import TRUTHS

    truths = [truth for truth in TRUTHS if label_report.by_truth[truth]]
    say_result(
        f"Labels compared with {label_report.name}: {label_report.labelled} of {label_report.judgements} judgements are of labelled cases."
    )
    rows = [(verdict or "(none)", *(by[t] for t in truths)) for verdict, by in label_report.verdicts.items()]
    table(("verdict", *truths), rows, title="By verdict and label", right=truths)
    shares = (
        ("confirmed, but false", label_report.confirmed_that_was_false),
        ("refuted, but true", label_report.refuted_that_was_true),
    )
    columns = ("error", "judgements", "of", "stories", "days", "share", "95 % interval")
    table(columns, [(name, *_share_cells(share)) for name, share in shares], right=columns[1:])
    heads = (
        *("signals", "judgements", "stories", "days", "Brier", "95 % interval"),
        *("mean confidence", "were true", "95 % interval"),
    )
    scores = (("all", label_report.all), ("buy or sell", label_report.acted))
    table(heads, [(name, *_score_cells(score)) for name, score in scores], right=heads[1:])
    say_result(
        "Confidence is about truth. Whether the price moved in the direction of the order is a different question: see `newsproof outcomes`."
    )


def _share_cells(share_row: Share) -> tuple[object, ...]:
    share, interval = _with_interval(share_row.share, share_row.low, share_row.high, ".1%")
    return share_row.count, share_row.of, share_row.stories, share_row.days, share, interval


def _score_cells(score: Score) -> tuple[object, ...]:
    true = score.was_true
    sure = None if score.mean_confidence is None else f"{score.mean_confidence:.3f}"
    brier = _with_interval(score.brier, score.brier_low, score.brier_high, ".3f")
    share = _with_interval(true.share, true.low, true.high, ".1%")
    return score.judgements, score.stories, true.days, *brier, sure, *share


def _with_interval(
    value: float | None, low: float | None, high: float | None, form: str
) -> tuple[str | None, str | None]:
    if value is None:
        return None, None
    few = low is None or high is None
    return f"{value:{form}}", "too few days" if few else f"{low:{form}} to {high:{form}}"
