"""The dry run: counts what a run would execute, reuse and miss, and its cost, without making calls.

The recorded call stands in for each call that would be made, so the rest of the case is seen too. The reply to the changed prompt
is unknown, so everything after such a call counts as "may follow": an upper bound on further calls and misses.

The same stand-ins show what today's code asks of recorded cases with nothing changed (:func:`count_questions`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal

import msgspec

from agents.core.registry import Registry
from agents.graphs import verification
from evaluation.compare.code_identity import QuestionCounts, RunCode, declarations_of
from evaluation.replay.candidates import ReplayBuilder
from evaluation.replay.journal import Source, Survey, draw_sample, recordings
from evaluation.runs.plan import RunPlan
from infra.ports import Ports
from schemas.config import Snapshot
from schemas.effects import CallModel
from streams.replay import Change, Miss, Need, Recording, Replay, ReplayResult

CASES = 300
"""Cases that are compared. A step whose requests changed shows it in nearly every case that reaches it."""


async def count_questions(
    source: Source, chosen: Sequence[str], registry: Registry
) -> tuple[dict[str, QuestionCounts], int]:
    """Compare the requests of today's code, with nothing changed, with the recorded ones. Makes no call.

    Returns (by step, how many of its requests to a model have another hash than recorded; number of cases compared). The
    recorded reply stands in for the reply to a changed request, so later steps are compared too.
    """
    wanted = frozenset(draw_sample(list(chosen), CASES))
    builder = ReplayBuilder(registry, source.snapshots, Change(), ask_every_step=True)
    asked, otherwise, cases = Counter[str](), Counter[str](), 0
    async for recording in recordings(source, wanted.__contains__):
        if recording.unreadable:
            continue
        cases += 1
        for used in _with_stand_ins(builder.build(recording)).used:
            if used.kind == "model":
                asked[used.step] += 1
                otherwise[used.step] += used.execution != "reused"
    return {step: QuestionCounts(asked[step], otherwise[step]) for step in asked}, cases


def _with_stand_ins(replay: Replay, on_need: Callable[[Need], None] = lambda _need: None) -> ReplayResult:
    """Run a replay in which the recorded reply stands in for each model call; ``on_need`` sees what it asks."""
    asking = replay.run()
    try:
        need = next(asking)
        while True:
            on_need(need)
            known = need.stand_in if isinstance(need.effect, CallModel) else ()
            need = asking.send(known or Miss("the recording has no reply to use instead"))
    except StopIteration as stop:
        replayed: ReplayResult = stop.value
        return replayed


def recorded_code(snapshots: Mapping[str, Snapshot], config_hashes: Sequence[str]) -> tuple[str, ...]:
    """Return the code versions that these snapshots pin, sorted; empty (unknown) when a snapshot is missing."""
    pinned = [snapshots.get(config_hash) for config_hash in dict.fromkeys(config_hashes)]
    return tuple(sorted({s.code_version for s in pinned if s is not None})) if all(pinned) else ()


async def identify_code(plan: RunPlan, source: Source, surveyed: Survey) -> RunCode:
    """Return the code that runs a plan and the code that recorded its cases; compare their requests if the two differ."""
    registry = verification()
    recorded = recorded_code(source.snapshots, surveyed.config_hashes)
    newest = source.snapshots.get(surveyed.config_hashes[-1]) if surveyed.config_hashes else None
    prompts = {**(newest.prompts if newest is not None else {}), **plan.prompts}
    same = recorded == (plan.code_version,)
    asked, cases = (
        ({}, 0) if same else await count_questions(source, draw_sample(surveyed.ended, plan.sample), registry)
    )
    return RunCode(
        run_id=plan.run_id,
        code=(plan.code_version,),
        recorded_code=recorded,
        declarations=declarations_of(registry, prompts),
        questions=asked,
        looked_at=cases,
        changed_prompts=(*plan.prompts, *plan.models),
    )


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


async def estimate(plan: RunPlan, source: Source, surveyed: Survey, builder: ReplayBuilder, ports: Ports) -> Estimate:
    """Return the estimate. Makes no calls and writes nothing."""
    estimated = Estimate(open=surveyed.open, executed_by_step=Counter())
    chosen = frozenset(draw_sample(surveyed.ended, plan.sample))
    async for recording in recordings(source, chosen.__contains__):
        _add(estimated, recording, builder, ports, plan.repeat)
    return estimated


def _add(estimated: Estimate, recording: Recording, builder: ReplayBuilder, ports: Ports, repeat: int) -> None:
    estimated.cases += repeat
    if recording.unreadable:
        estimated.unreadable += repeat
        return
    replayed = _with_stand_ins(builder.build(recording), lambda need: _price(estimated, need, ports, repeat))
    _count(estimated, replayed, repeat)


def _price(estimated: Estimate, need: Need, ports: Ports, repeat: int) -> None:
    if not isinstance(need.effect, CallModel):
        return
    worst = ports.of(need.effect).worst_case_usd(need.effect)
    known = [c.cost_usd for c in need.stand_in if c.cost_usd is not None]
    estimated.executed += repeat
    estimated.executed_by_step[need.step] += repeat
    estimated.unpriced += 0 if worst is not None else repeat
    estimated.worst += (worst or Decimal(0)) * repeat
    estimated.cost += (sum(known, Decimal(0)) if known else worst or Decimal(0)) * repeat


def _count(estimated: Estimate, replayed: ReplayResult, repeat: int) -> None:
    first = next((n for n, u in enumerate(replayed.used) if u.execution != "reused"), len(replayed.used))
    estimated.missed += repeat * sum(1 for u in replayed.used if u.execution == "miss" and u.kind != "model")
    estimated.missed_cases += repeat * any(u.execution == "miss" and u.kind != "model" for u in replayed.used)
    for number, used in enumerate(replayed.used):
        if used.execution != "reused":
            continue
        cost = sum((c.cost_usd for c in used.calls if c.cost_usd is not None), Decimal(0)) * repeat
        estimated.reused += repeat
        estimated.avoided += cost
        if number > first:
            estimated.may_follow += repeat * (used.kind == "model")
            estimated.may_follow_cost += cost if used.kind == "model" else Decimal(0)
            estimated.may_miss += repeat * (used.kind in ("search", "scrape", "market", "earlier_claims"))
