"""Output of ``./run eval``: a table of the cases and one of the totals, or JSON or Markdown."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from agents.tables import load_tables
from lab.eval.evaluate import CaseResult, Evaluation, JudgedCase, read_case
from lab.eval.judging import evaluate, read_oracle
from newsproof.app import exits
from newsproof.app.invocation import UNKEPT, Invocation, run
from newsproof.app.sheet import Sheet, json_line, say_result, table
from schemas.config import Snapshot
from schemas.errors import ConfigError, ContractError
from schemas.printable import counted

if TYPE_CHECKING:
    from infra.settings import Settings


def show_evaluation(
    invocation: Invocation,
    file: Path,
    *,
    as_json: bool,
    markdown: bool,
    strict: bool,
    model: bool = False,
    oracle: Path | None = None,
) -> int:
    """Judge the cases of a file, print the result, and return the exit status.

    A malformed line is reported on standard error and skipped; the others are judged, and the status is 1. With
    ``strict`` the status is also 1 when a field of a case is wrong. ``model`` judges by the configured models instead
    of rules alone. ``oracle`` names a file of stances that stand in for the critic's answers.

    Raises:
        ConfigError: a file cannot be read, or holds no case, or options exclude each other.
    """
    if model and oracle is not None:
        raise ConfigError("--model asks a critic and --oracle replaces it: leave out one of them")
    stances = None if oracle is None else read_oracle(oracle)
    cases, refused = _read(file)
    settings = invocation.settings()
    snapshot = _snapshot(settings)
    if model:
        from lab.eval.model import evaluate_by_model

        evaluation = run(evaluate_by_model(cases, snapshot, settings), interrupted=UNKEPT)
        print(_by_whom(evaluation), file=sys.stderr, flush=True)
    else:
        evaluation = evaluate(cases, snapshot, stances)
    if as_json:
        json_line(evaluation)
    elif markdown:
        say_result(markdown_of(file.name, evaluation))
    else:
        _print(evaluation)
    wrong = strict and evaluation.all_right < evaluation.cases
    return exits.FINDING if refused or wrong else exits.OK


def markdown_of(name: str, evaluation: Evaluation) -> str:
    """Return the totals as rows of the table in docs/verification.md."""
    heading = f"`{name}`: {counted(evaluation.cases, 'case')}, {evaluation.all_right} right in every field"
    made = Sheet(*_totals(evaluation)).markdown(lambda cell: "–" if cell is None else str(cell))
    return f"{heading}\n\n{made}"


def _totals(evaluation: Evaluation) -> tuple[list[str], list[list[str | int | None]]]:
    by = evaluation.model
    columns = ["field", "right", "judged", *(["rules alone"] if by else []), "plain counting"]
    rows: list[list[str | int | None]] = [
        [name, t.right, t.judged, *([by.rules[name].right] if by else []), t.plain_right]
        for name, t in evaluation.fields.items()
    ]
    return columns, rows


def _by_whom(evaluation: Evaluation) -> str:
    by = evaluation.model
    assert by is not None
    whom = "a SCRIPTED server, whose critic reads by a few rules of its own" if by.mode != "live" else "live models"
    cost = "of unknown cost" if by.cost_usd is None else f"for {by.cost_usd:.4f} USD"
    lost = f"; no signal for {', '.join(by.failed)}" if by.failed else ""
    return f"Judged by {whom} ({', '.join(by.models)}): {counted(by.calls, 'call')} {cost}{' (simulated)' * (by.mode != 'live')}{lost}"


def _read(file: Path) -> tuple[list[tuple[int, JudgedCase]], int]:
    try:
        lines = file.read_bytes().removeprefix(b"\xef\xbb\xbf").splitlines()
    except OSError as exc:
        raise ConfigError(f"{file}: {exc.strerror}; name a file with one judged case a line") from exc
    cases: list[tuple[int, JudgedCase]] = []
    refused = 0
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            cases.append((number, read_case(line)))
        except ContractError as exc:
            refused += 1
            print(f"{file.name}, line {number}: {exc}; left out", file=sys.stderr, flush=True)
    if not cases:
        raise ConfigError(f"{file} holds no judged case; the form of a line is in docs/verification.md")
    return cases, refused


def _snapshot(settings: Settings) -> Snapshot:
    # Use the real table of officials in every mode: the synthetic ones belong to the bundled corpus.
    threshold = settings.search_multi_source_threshold
    return Snapshot(tables=load_tables(demo=False), search_multi_source_threshold=threshold)


def _print(evaluation: Evaluation) -> None:
    table(("case", "right", "verdict", "confidence", "what is wrong"), [_row(r) for r in evaluation.per_case])
    columns, rows = _totals(evaluation)
    table(columns, rows, right=columns[1:])
    say_result(f"{evaluation.all_right} of {counted(evaluation.cases, 'case')} right in every judged field")
    say_result(
        f"claims falsely raised: {evaluation.false_raised}; true claims lowered: {evaluation.true_lowered}; "
        f"orders without support: {evaluation.actions_without_support}"
    )


def _row(result: CaseResult) -> tuple[str, ...]:
    right = sum(f.right for f in result.fields.values())
    wrong = [
        f"{name}: {result.fields[name].got}, expected {result.fields[name].expected}"
        for name, field in result.fields.items()
        if not field.right
    ]
    change = f"{result.preliminary:.2f} → {result.confidence:.2f}"
    return result.id, f"{right}/{len(result.fields)}", result.rule, change, "; ".join(wrong)
