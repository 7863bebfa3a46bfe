"""The dry run: counts what a run would execute, reuse and miss, and its cost, without making calls.

The recorded call stands in for each call that would be made, so that the rest of the case is seen too. The reply to the
changed prompt is unknown, so everything after such a call counts as "may follow": an upper bound on further calls and
misses.
"""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

import msgspec

from evaluation.backtest.deciding import Deciding
from evaluation.backtest.journal import Source, Survey, drawn, recordings
from evaluation.backtest.run.plan import RunPlan
from infra.ports import Ports
from schemas.effects import CallModel
from streams.replay import Miss, Need, Recording, Replayed


class Estimate(msgspec.Struct, kw_only=True):
    """Counts over all repeats, costs in USD.

    ``cost`` takes the recorded cost of the calls, ``worst`` assumes that every call uses all tokens it may use.
    ``may_follow_cost`` is the cost of the recorded calls after the executed ones. ``code_change``: what is otherwise than in
    the code that recorded the cases; empty: nothing. ``can_show``: which difference of profit these cases can show, in words.
    """

    cases: int = 0
    executed: int = 0
    reused: int = 0
    missed: int = 0
    missed_cases: int = 0
    unreadable: int = 0
    open: int = 0
    executed_by_step: Counter[str] = Counter()
    may_follow: int = 0
    may_miss: int = 0
    cost: Decimal = Decimal(0)
    may_follow_cost: Decimal = Decimal(0)
    worst: Decimal = Decimal(0)
    unpriced: int = 0
    avoided: Decimal = Decimal(0)
    code_change: str = ""
    can_show: str = ""


async def estimate(plan: RunPlan, source: Source, surveyed: Survey, deciding: Deciding, ports: Ports) -> Estimate:
    """Return the estimate. Makes no calls and writes nothing."""
    found = Estimate(open=surveyed.open, executed_by_step=Counter())
    chosen = frozenset(drawn(surveyed.ended, plan.sample))
    async for recording in recordings(source, chosen.__contains__):
        _add(found, recording, deciding, ports, plan.repeat)
    return found


def _add(found: Estimate, recording: Recording, deciding: Deciding, ports: Ports, repeat: int) -> None:
    found.cases += repeat
    if recording.unreadable:
        found.unreadable += repeat
        return
    asking = deciding.replay(recording).run()
    try:
        need = next(asking)
        while True:
            _price(found, need, ports, repeat)
            known = need.stand_in if isinstance(need.effect, CallModel) else ()
            need = asking.send(known or Miss("only the run itself can tell"))
    except StopIteration as stop:
        _count(found, stop.value, repeat)


def _price(found: Estimate, need: Need, ports: Ports, repeat: int) -> None:
    if not isinstance(need.effect, CallModel):
        return
    worst = ports.of(need.effect).worst_case_usd(need.effect)
    known = [c.cost_usd for c in need.stand_in if c.cost_usd is not None]
    found.executed += repeat
    found.executed_by_step[need.step] += repeat
    found.unpriced += 0 if worst is not None else repeat
    found.worst += (worst or Decimal(0)) * repeat
    found.cost += (sum(known, Decimal(0)) if known else worst or Decimal(0)) * repeat


def _count(found: Estimate, replayed: Replayed, repeat: int) -> None:
    first = next((n for n, u in enumerate(replayed.used) if u.execution != "reused"), len(replayed.used))
    found.missed += repeat * sum(1 for u in replayed.used if u.execution == "miss" and u.kind != "model")
    found.missed_cases += repeat * any(u.execution == "miss" and u.kind != "model" for u in replayed.used)
    for number, used in enumerate(replayed.used):
        if used.execution != "reused":
            continue
        cost = sum((c.cost_usd for c in used.calls if c.cost_usd is not None), Decimal(0)) * repeat
        found.reused += repeat
        found.avoided += cost
        if number > first:
            found.may_follow += repeat * (used.kind == "model")
            found.may_follow_cost += cost if used.kind == "model" else Decimal(0)
            found.may_miss += repeat * (used.kind in ("search", "scrape", "market", "earlier_claims"))
