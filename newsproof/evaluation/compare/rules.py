"""Rules of ``--fail-on``: conditions under which a comparison fails a build."""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence

import msgspec

from newsproof.evaluation.compare.metrics import MetricResult
from newsproof.evaluation.compare.pairing import Comparability, RunCounts
from newsproof.evaluation.compare.rows import HORIZONS
from schemas.errors import ConfigError

OF_HORIZONS = ("hit_rate", "brier", "ece")
OF_CASES = (
    "profit",
    "profit_uncapped",
    "profit_adjusted",
    "confidence",
    "action_rate",
    "action_flips",
    "verdict_flips",
    "cost",
    "full_cost",
    "latency",
)
OF_PRIMARY = "primary"
"""The metric that was declared primary, whichever it is."""
COUNTS = ("missing", "misses", "failed", "refused", "partly", "look_ahead")

GRAMMAR = f"""a rule is METRIC[@HORIZON] OPERATOR NUMBER [surely]
  METRIC    {", ".join((*OF_CASES, *OF_HORIZONS))}; primary; or a count of cases: {", ".join(COUNTS)}
  HORIZON   {", ".join(HORIZONS.values())}, for {", ".join(OF_HORIZONS)}; without it the rule holds when it holds at any of them
  OPERATOR  > >= < <=
  NUMBER    with a sign: the change from A to B (+0.01, -0.05), with % relative to A (+10%)
            without a sign: the value in B (0.25); with % a share (5%)
            where cases worked in one run alone, it has to hold at both ends of what they can have come to
  surely    only when the whole 95 % interval of the change lies beyond NUMBER
examples: "brier>+0.01"  "primary<-0.001 surely"  "full_cost>+10%"  "action_flips>5%"  "misses>0\""""

_RULE = re.compile(
    r"(?P<metric>[a-z_]+)(?:@(?P<horizon>\w+))?\s*(?P<op>>=|<=|>|<)\s*(?P<sign>[+-]?)(?P<number>\d+(?:\.\d*)?|\.\d+)"
    r"(?P<percent>%?)(?:\s+(?P<surely>surely))?"
)
_OPERATORS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule. ``change`` compares B minus A rather than B; ``relative`` makes the number a fraction of A."""

    text: str
    metric: str
    horizon: str | None
    operator: str
    number: float
    change: bool
    relative: bool
    surely: bool


class RuleResult(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a rule holds; None when its metric was not measured. ``why`` gives the figures."""

    rule: str
    holds: bool | None
    why: str


def parse_rule(text: str) -> Rule:
    """Parse a rule.

    Raises:
        ConfigError: the text is not a rule; the message shows the grammar.
    """
    found = _RULE.fullmatch(text.strip())
    if found is None:
        raise _refused(text, "it does not have that form")
    metric, horizon, change = found["metric"], found["horizon"], found["sign"] != ""
    if metric not in (OF_PRIMARY, *OF_CASES, *OF_HORIZONS, *COUNTS):
        raise _refused(text, f"there is no metric {metric!r}")
    if horizon is not None and (metric not in OF_HORIZONS or horizon not in HORIZONS.values()):
        raise _refused(text, f"{metric} has no horizon {horizon!r}")
    if found["surely"] and (not change or metric in COUNTS):
        raise _refused(text, "surely needs a change of a metric (a number with a sign): only changes have an interval")
    if found["percent"] and not change and metric in COUNTS:
        raise _refused(text, f"{metric} is a number of cases, not a share")
    number = float(found["number"]) * (-1.0 if found["sign"] == "-" else 1.0)
    return Rule(
        text=text.strip(),
        metric=metric,
        horizon=horizon,
        operator=found["op"],
        number=number / 100.0 if found["percent"] else number,
        change=change,
        relative=change and bool(found["percent"]),
        surely=bool(found["surely"]),
    )


def judge(rule: Rule, metrics: Sequence[MetricResult], counts: Comparability) -> RuleResult:
    """Return whether the rule holds; a rule without a horizon holds when it holds at any."""
    if rule.metric in COUNTS:
        a, b = (float(_count(run, rule.metric)) for run in (counts.a, counts.b))
        holds = _holds(rule, a, b, b - a)
        return RuleResult(rule=rule.text, holds=holds, why=f"{rule.metric}: A {a:,.0f}, B {b:,.0f}")
    asked = [m for m in metrics if rule.metric in (m.metric, m.role) and rule.horizon in (None, m.horizon)]
    answers = [(m, _of_metric(rule, m)) for m in asked]
    known = [(m, answer) for m, answer in answers if answer is not None]
    if not known:
        return RuleResult(rule=rule.text, holds=None, why="; ".join(dict.fromkeys(_why_not(m) for m in asked)))
    holding = [m for m, answer in known if answer]
    return RuleResult(
        rule=rule.text, holds=bool(holding), why="; ".join(_told(m) for m in holding or [m for m, _ in known])
    )


def _of_metric(rule: Rule, metric: MetricResult) -> bool | None:
    if rule.change and metric.delta_low is not None and metric.delta_high is not None:
        if rule.relative and metric.a is None:
            return None
        if rule.surely:
            edge = metric.low if rule.operator in (">", ">=") else metric.high
            return None if edge is None else _holds(rule, metric.a or 0.0, metric.b or 0.0, edge)
        ends = {_holds(rule, metric.a or 0.0, metric.b or 0.0, end) for end in (metric.delta_low, metric.delta_high)}
        return ends.pop() if len(ends) == 1 else None
    if rule.change or metric.b is None:
        return None
    return _holds(rule, 0.0, metric.b, 0.0)


def _holds(rule: Rule, a: float, b: float, change: float) -> bool:
    limit = rule.number * abs(a) if rule.relative else rule.number
    return bool(_OPERATORS[rule.operator](change if rule.change else b, limit))


def _count(run: RunCounts, name: str) -> int:
    return int(getattr(run, name))


def _told(m: MetricResult) -> str:
    if m.delta_low is None or m.delta_high is None:
        return _why_not(m)
    interval = f" [{m.low:+.6g}, {m.high:+.6g}]" if m.low is not None and m.high is not None else ""
    if m.a is None or m.b is None:
        return f"{m.label}: change between {m.delta_low:+.6g} and {m.delta_high:+.6g}{interval}"
    return f"{m.label}: A {m.a:.6g}, B {m.b:.6g}, change {m.b - m.a:+.6g}{interval}"


def _why_not(m: MetricResult) -> str:
    return f"{m.label}: {m.note or 'not measured'}"


def _refused(text: str, why: str) -> ConfigError:
    return ConfigError(f"--fail-on {text!r}: {why}; {GRAMMAR}")
