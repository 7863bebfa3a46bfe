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
    typer.Option(
        help="Language to read in; summaries too, where they were written in it. Default: that of LC_ALL or LANG."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="JSON on standard output, one document a line.")]


class CaseGroup(TyperGroup):
    """``case ID`` is short for ``case show ID``: no case is called like a command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put ``show`` before what is no command."""
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            args = ["show", *args]
        return super().parse_args(ctx, args)


case = typer.Typer(cls=CaseGroup, help="One case: its whole story (`case ID`), or decided again.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command()(signals)
    app.command()(cases)
    app.add_typer(case, name="case")
    app.command()(audit)


def signals(
    ctx: typer.Context,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for further ones, for ever.")] = False,
    asset: Annotated[list[str] | None, typer.Option(help="Only this asset, such as BTC; may be repeated.")] = None,
    min_confidence: Annotated[float, typer.Option(min=0.0, max=1.0, help="Only with at least this confidence.")] = 0.0,
    verdict: Annotated[
        list[str] | None, typer.Option(help="Only of this verdict, such as confirmed; may be repeated.")
    ] = None,
    stage: Annotated[
        list[str] | None, typer.Option(help="Only of this stage, such as retracted; may be repeated.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="Only decided since then: 30m, 2h, 3d, or a time (UTC).", metavar="WHEN")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Only the newest so many; with --follow, of those that are there already.")
    ] = None,
    lang: Lang = None,
    as_json: AsJson = False,
) -> None:
    """Show the newest revision of every signal."""
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
    status: Annotated[str | None, typer.Option(help="open, signal, dropped or failed.")] = None,
    as_json: AsJson = False,
) -> None:
    """List all cases in short."""
    from newsproof.cli.log.reading import show_cases

    run(show_cases(of(ctx), status=status, as_json=as_json), late_logs=True)


@case.command("show")
def show_one(
    ctx: typer.Context,
    id: Annotated[str, typer.Argument(metavar="ID", help="Case id, the start of one, or the news's own id (h09).")],
    as_json: AsJson = False,
    events: Annotated[bool, typer.Option("--events", help="The raw records instead, a line of JSON each.")] = False,
    lang: Lang = None,
) -> None:
    """Tell a case's whole story: every event and thought, the evidence, the confidence, every call and its cost."""
    from newsproof.cli.log.reading import reader_language, show_case

    run(show_case(of(ctx), id, events=events, as_json=as_json, language=reader_language(lang)), late_logs=True)


@case.command("replay")
def replay_one(
    ctx: typer.Context,
    id: Annotated[str, typer.Argument(metavar="ID", help="Case id, the start of one, or the news's own id (h09).")],
    prompt: Annotated[
        list[str] | None, typer.Option(help="NAME=VERSION (synthesize=v4) or NAME=FILE.md.", metavar="NAME=…")
    ] = None,
    from_step: Annotated[
        str | None, typer.Option(help="Ask anew from this step on; what came before stays as recorded.")
    ] = None,
    max_cost: Annotated[float, typer.Option(min=0, help="USD.")] = 1.0,
    sample_log: Annotated[
        bool, typer.Option("--sample-log", help="A case of the log that ships with the project.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Decide one case again, with another prompt or from a step on, and show both signals side by side."""
    from newsproof.evaluation.backtest.fork import show_replay

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
    """Read the whole log and check its promises.

    Exit status 1 unless nothing is lost, nothing is there twice, no signal is forged or says more than was found, and
    every case of a listed source bears the listener's mark.
    """
    from newsproof.cli.log.auditing import audited

    report = run(audited(of(ctx)), late_logs=True)
    if as_json:
        json_line(report)
    else:
        from newsproof.report.audit import print_audit

        print_audit(report)
    raise typer.Exit(exits.OK if report.clean else exits.FINDING)
