"""``newsproof backtest compare``, from its arguments to its exit status."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from infra.clickhouse.client import ClickHouse
from newsproof.app import exits
from newsproof.app.composition import clickhouse_of
from newsproof.app.invocation import Invocation, say_result
from newsproof.app.processes.supervisor import prepare_tables
from newsproof.app.servers import servers, with_data
from newsproof.evaluation.backtest.code_identity import CodeChange
from newsproof.evaluation.backtest.run.code_check import read_code_change
from newsproof.evaluation.compare.comparison import Comparison, compare, with_texts
from newsproof.evaluation.compare.documents import as_csv, as_json, as_junit, as_markdown
from newsproof.evaluation.compare.formats import ReportFormat
from newsproof.evaluation.compare.reading import read_runs, read_texts
from newsproof.evaluation.compare.rules import Rule, parse_rule
from newsproof.evaluation.compare.terminal import show_table
from newsproof.evaluation.compare.texts import visible

_DOCUMENTS = {"json": as_json, "csv": as_csv, "md": as_markdown, "junit": as_junit}


async def compare_runs(
    tables: ClickHouse,
    a: str,
    b: str,
    *,
    rules: Sequence[Rule] = (),
    differences: int = 10,
    seed: int = 0,
    resamples: int = 5_000,
    allow_code_change: bool = False,
) -> Comparison:
    """Compare two runs of the tables; ``live``: the live judgements. Keywords as in :func:`comparison.compare`.

    Raises:
        ConfigError: a run does not exist, no case worked in both, or one is ``live`` and other code recorded it than
            decided the other, unless ``allow_code_change``.
    """
    first, second = await read_runs(tables, a, b)
    change = await read_code_change(tables, a, b, allow=allow_code_change)
    found = compare(first, second, rules=rules, differences=differences, seed=seed, resamples=resamples)
    return with_texts(_with_code_change(found, change), await read_texts(tables, a, b, found))


def _with_code_change(found: Comparison, change: CodeChange | None) -> Comparison:
    if change is None:
        return found
    who = "it is unknown whether other code" if change.is_unknown else "other code"
    return msgspec.structs.replace(
        found,
        warnings=(visible(change.text), *found.warnings),
        verdict=f"{found.verdict}; {who} decided {change.b} than {change.a}, so a difference may not be of the prompt alone",
    )


async def show_comparison(
    invocation: Invocation,
    a: str,
    b: str,
    *,
    format: ReportFormat,
    fail_on: Sequence[str],
    differences: int,
    seed: int,
    resamples: int,
    allow_code_change: bool = False,
) -> int:
    """Print the comparison; return the exit status: 100 when a rule holds, 1 when none holds but one cannot be judged.

    Raises:
        ConfigError: a malformed rule, an unknown run, or nothing to compare.
    """
    rules = [parse_rule(text) for text in fail_on]
    settings = await with_data(invocation.settings(), given=invocation.data_dir_given)
    async with servers(settings, kafka=False) as found:
        at = found.applied_to(settings)
        if "clickhouse" in found.own:
            await prepare_tables(at)
        async with clickhouse_of(at) as tables:
            result = await compare_runs(
                tables,
                a,
                b,
                rules=rules,
                differences=differences,
                seed=seed,
                resamples=resamples,
                allow_code_change=allow_code_change,
            )
    if format == "table":
        show_table(result)
    else:
        say_result(_DOCUMENTS[format](result).rstrip("\n"))
    return status_of(result)


def status_of(found: Comparison) -> int:
    """Return the exit status that follows from the rules."""
    if any(rule.holds for rule in found.rules):
        return exits.FAIL_ON
    return exits.FINDING if any(rule.holds is None for rule in found.rules) else exits.OK
