"""Commands that read the log: signals, cases, case, audit."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from newsproof.app import exits
from newsproof.app.invocation import json_line, of, run

Lang = Annotated[
    Literal["zh", "en"] | None,
    typer.Option(help="Display language, also of summaries that exist in it. Default: from LC_ALL or LANG."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")]


class CaseGroup(TyperGroup):
    """``case ID`` is short for ``case show ID``: no case is called like a command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put ``show`` before what is no command."""
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            args = ["show", *args]
        return super().parse_args(ctx, args)


case = typer.Typer(
    cls=CaseGroup, help="Show the timeline of a case (`case ID`), or replay the case.", no_args_is_help=True
)


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command()(signals)
    app.command()(cases)
    app.add_typer(case, name="case")
    app.command()(audit)


def signals(
    ctx: typer.Context,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep running, and print new signals as they arrive.")
    ] = False,
    asset: Annotated[list[str] | None, typer.Option(help="Only this asset, such as BTC. Repeatable.")] = None,
    min_confidence: Annotated[float, typer.Option(min=0.0, max=1.0, help="Minimum confidence, 0–1.")] = 0.0,
    verdict: Annotated[list[str] | None, typer.Option(help="Only this verdict, such as confirmed. Repeatable.")] = None,
    stage: Annotated[list[str] | None, typer.Option(help="Only this stage, such as retracted. Repeatable.")] = None,
    since: Annotated[
        str | None, typer.Option(help="Only signals decided since then: 30m, 2h, 3d, or a time (UTC).", metavar="WHEN")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            min=1, help="Maximum number of signals, newest first. With --follow, it limits only the existing ones."
        ),
    ] = None,
    lang: Lang = None,
    as_json: AsJson = False,
) -> None:
    """Show the latest revision of each signal."""
    from newsproof.cli.log.reading import Filter, moment_since, reader_language, show_signals

    wanted = Filter(
        assets=tuple(asset or ()),
        min_confidence=min_confidence,
        stages=tuple(stage or ()),
        verdicts=tuple(verdict or ()),
        since=moment_since(since, now=datetime.now(UTC)),
        limit=limit,
    )
    language = reader_language(lang)
    run(show_signals(of(ctx), wanted, follow=follow, as_json=as_json, language=language), late_logs=True)


def cases(
    ctx: typer.Context,
    status: Annotated[str | None, typer.Option(help="Only this status: open, signal, dropped or failed.")] = None,
    as_json: AsJson = False,
) -> None:
    """List all cases, one line each."""
    from newsproof.cli.log.reading import show_cases

    run(show_cases(of(ctx), status=status, as_json=as_json), late_logs=True)


@case.command("show")
def show_one(
    ctx: typer.Context,
    id: Annotated[str, typer.Argument(metavar="ID", help="Case id, a prefix of it, or the news item's own id (h09).")],
    as_json: AsJson = False,
    events: Annotated[bool, typer.Option("--events", help="Print the raw records, one JSON object per line.")] = False,
    lang: Lang = None,
) -> None:
    """Show the timeline of a case: events, reasoning, evidence, confidence, and every call with its cost."""
    from newsproof.cli.log.reading import reader_language, show_case

    run(show_case(of(ctx), id, events=events, as_json=as_json, language=reader_language(lang)), late_logs=True)


@case.command("replay")
def replay_one(
    ctx: typer.Context,
    id: Annotated[str, typer.Argument(metavar="ID", help="Case id, a prefix of it, or the news item's own id (h09).")],
    prompt: Annotated[
        list[str] | None,
        typer.Option(help="Prompt to test: NAME=VERSION (synthesize=v4) or NAME=FILE.md.", metavar="NAME=…"),
    ] = None,
    from_step: Annotated[
        str | None, typer.Option(help="Repeat the model calls from this step on. Earlier steps stay as recorded.")
    ] = None,
    max_cost: Annotated[float, typer.Option(min=0, help="Maximum cost in USD.")] = 1.0,
    sample_log: Annotated[bool, typer.Option("--sample-log", help="Replay a case of the bundled sample log.")] = False,
    as_json: AsJson = False,
) -> None:
    """Replay one case with another prompt, or from one step on, and show both signals side by side."""
    from evaluation.runs.case_replay import show_replay

    work = show_replay(
        of(ctx),
        id,
        prompts=prompt or (),
        from_step=from_step,
        max_cost=max_cost,
        sample_log=sample_log,
        as_json=as_json,
    )
    run(work)


def audit(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Check the whole log for lost, duplicate and forged records.

    Exit status 1 if a record is lost or duplicated, if a signal is forged or claims more than the search found, or if a case of a
    listed source lacks the listener's signature.
    """
    from newsproof.cli.log.auditing import audited

    report = run(audited(of(ctx)), late_logs=True)
    if as_json:
        json_line(report)
    else:
        from newsproof.report.audit import print_audit

        print_audit(report)
    raise typer.Exit(exits.OK if report.clean else exits.FINDING)
