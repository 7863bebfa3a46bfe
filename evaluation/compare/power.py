"""What a sample can show: the smallest difference that it would detect, and how much more one would need to see another.

Everything is computed from the block sums of the two runs at hand; nothing is assumed of how news or prices behave.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

import msgspec

from evaluation.compare.comparison import Comparison, compare
from evaluation.compare.metrics import MetricResult
from evaluation.compare.reading import read_returns, read_runs
from evaluation.compare.rows import LIVE
from evaluation.compare.terminal import figure
from evaluation.compare.terms import PRIMARY, Scoring
from infra.clickhouse.client import ClickHouse
from newsproof.app.invocation import json_line, say_result, table
from schemas.errors import ConfigError
from schemas.prices import PROFIT_CAP


class Power(msgspec.Struct, frozen=True, kw_only=True):
    """One metric. ``detectable``: the smallest true difference that such a sample shows in 4 of 5 cases (None: too few blocks).

    ``needed_blocks`` and ``needed_cases``: how many blocks of days, with as many cases each as here, would show ``wanted``; None where the cases that are not known in both runs leave more open than that.
    """

    metric: str
    cases: int
    blocks: int
    detectable: float | None
    wanted: float | None
    needed_blocks: int | None
    needed_cases: int | None
    note: str


def parse_differences(given: Sequence[str]) -> dict[str, float]:
    """Return differences by metric from ``METRIC=DIFFERENCE``.

    Raises:
        ConfigError: one has another form.
    """
    found = {}
    for text in given:
        label, equals, number = text.partition("=")
        try:
            found[label.strip()] = abs(float(number))
        except ValueError:
            equals = ""
        if not equals or not found.get(label.strip()):
            raise ConfigError(f"--difference {text!r:.60}: write METRIC=NUMBER above 0, such as profit=0.002")
    return found


def power_of(found: Comparison, wanted: Mapping[str, float]) -> list[Power]:
    """Return what this comparison's sample can show of each tested metric, and what it would take to see ``wanted``.

    Raises:
        ConfigError: a wanted metric is none of the comparison's.
    """
    tests = {m.label: m for m in found.metrics if m.role != "shown"}
    for label in wanted:
        if label not in tests:
            raise ConfigError(f"--difference {label}=…: there is no such metric; write one of {', '.join(tests)}")
    return [_power(m, wanted.get(label)) for label, m in tests.items()]


def _power(m: MetricResult, wanted: float | None) -> Power:
    blocks = cases = None
    if wanted and m.detectable is not None and m.delta_low is not None and m.delta_high is not None:
        # The error shrinks with the root of the number of blocks; what is not known in both runs stays as wide as it is.
        gap = m.delta_high - m.delta_low
        if wanted > gap:
            blocks = max(math.ceil(m.blocks * ((m.detectable - gap) / (wanted - gap)) ** 2), 1)
            cases = math.ceil(m.cases * blocks / m.blocks)
    return Power(
        metric=m.label,
        cases=m.cases,
        blocks=m.blocks,
        detectable=m.detectable,
        wanted=wanted,
        needed_blocks=blocks,
        needed_cases=cases,
        note="both runs say the same: nothing varies" if m.verdict == "identical" else m.note,
    )


async def what_a_sample_shows(
    tables: ClickHouse, cases: Collection[str], primary: str = PRIMARY, cap: float = PROFIT_CAP
) -> str:
    """Return, before anything is paid, which difference of profit these cases can show, in words.

    There is no candidate yet, so its block sums are not known. The largest that it can have are taken: those of the live
    signals beside a candidate that acts on none of them.
    """
    try:
        live, _ = await read_runs(tables, LIVE, LIVE)
    except ConfigError:
        return "What difference this sample can show is not known: no live judgement of it is in ClickHouse."
    rows = [row for row in live.rows if row.case_id in cases]
    if not rows:
        return "What difference this sample can show is not known: no live judgement of it is in ClickHouse."
    acting = msgspec.structs.replace(live, rows=rows, cases=len(rows))
    observing = msgspec.structs.replace(
        acting, run_id="nothing", rows=[msgspec.structs.replace(row, action="observe") for row in rows]
    )
    of_profit = primary if primary.startswith(PRIMARY) else PRIMARY
    returns = await read_returns(tables, [acting])
    m = compare(acting, observing, returns, how=Scoring(primary=of_profit, cap=cap), differences=0).primary
    if m.detectable is None:
        return f"What difference this sample can show is not known: {m.note}."
    return (
        f"What this sample can show: its {m.cases:,} live signals with prices lie in {m.blocks:,} blocks of days. Beside a candidate "
        f"that acts on none of them, a true difference of {of_profit} of {m.detectable:.5f} a case would show 4 times in 5; one "
        "that changes less of them varies less, and shows at smaller differences (newsproof backtest power)."
    )


def show_power(found: Comparison, every: Sequence[Power], *, as_json: bool) -> None:
    """Print what the sample can show."""
    if as_json:
        json_line({"a": found.a, "b": found.b, "metrics": every})
        return
    by_label = {m.label: m for m in found.metrics}
    rows = [
        (
            one.metric,
            "–" if one.detectable is None else figure(by_label[one.metric], one.detectable),
            f"{one.cases:,}",
            f"{one.blocks:,}",
            *("–" if value is None else f"{value:,}" for value in (one.wanted, one.needed_blocks, one.needed_cases)),
            one.note,
        )
        for one in every
        if one.cases
    ]
    columns = ("metric", "can show", "cases", "blocks", "to see", "blocks needed", "cases needed", "")
    title = f"{found.name_a} against {found.name_b}: differences that such a sample shows in 4 of 5 cases, at 5 %"
    table(columns, rows, title=title, right=columns[1:-1])
    say_result("Profit sees less than a hit rate does: what a price gains varies more than whether it gains.")
