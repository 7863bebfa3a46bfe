"""The targets for a deep-analysed message and the criteria for all messages, and the verdict on each."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from lab.acceptance.measures import RunMeasures
from lab.acceptance.messages import MESSAGES, Message, ids_of
from schemas.printable import counted

MAX_COST_USD, AIM_COST_USD = 0.05, 0.01
MAX_LATENCY_S = 8.0
STEP_LATENCY_S = {"recall": 1.0, "plan": 2.0, "search": 2.0, "synthesize": 3.0}
MAX_SEARCHES = 1
MIN_SEARCH_SUCCESS = 0.95
"""All of these are from the requirements of the verification (docs/verification.md, "Acceptance run")."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """One target. ``measured`` None: there was nothing to measure, so the target is not met."""

    target: str
    wanted: str
    measured: float | None
    unit: str
    met: bool
    note: str = ""


def verdicts(run: RunMeasures) -> list[Verdict]:
    deep = run.deep
    unpriced = sum(c.unpriced_calls for c in deep)
    cost = _mean(c.cost_usd or 0.0 for c in deep)
    note = (
        f"{counted(unpriced, 'call')} of unknown price"
        if unpriced
        else f"aim < {AIM_COST_USD} USD"
        if cost is not None
        else ""
    )
    steps = [
        _below(f"mean {step}", limit_s, run.seconds_by_step.get(step), "s") for step, limit_s in STEP_LATENCY_S.items()
    ]
    success = run.searches_answered / run.searches_asked if run.searches_asked else None
    return [
        msgspec.structs.replace(
            _below("mean cost", MAX_COST_USD, cost, "USD"),
            note=note,
            met=cost is not None and cost < MAX_COST_USD and not unpriced,
        ),
        _below("mean latency", MAX_LATENCY_S, _mean(c.took_ms / 1000 for c in deep), "s"),
        *steps,
        _requests(run),
        Verdict(
            target="search success",
            wanted=f"> {MIN_SEARCH_SUCCESS:.0%}",
            measured=None if success is None else round(100 * success, 1),
            unit="%",
            met=success is not None and success > MIN_SEARCH_SUCCESS,
            note=f"{run.searches_answered} of {run.searches_asked}",
        ),
    ]


def _requests(run: RunMeasures) -> Verdict:
    """Return the target for search requests: the billed ones, or all requests if no provider bills any.

    The simple path sends one; a second one is for a claim in doubt (``agents.planning.due_searches``).
    """
    billed = any(c.billed_requests for c in run.deep)
    sent = [c.billed_requests if billed else c.requests for c in run.deep]
    doubted, every = sum(n > MAX_SEARCHES for n in sent), sum(c.requests for c in run.deep)
    return Verdict(
        target="search requests",
        wanted=f"≤ {MAX_SEARCHES}, in doubt {MAX_SEARCHES + 1}",
        measured=_mean(sent),
        unit="a message",
        met=bool(sent) and max(sent) <= MAX_SEARCHES + 1,
        note=f"{'billed' if billed else 'none is billed'}; {every} sent, {counted(doubted, 'message')} with more than one",
    )


def criteria(run: RunMeasures) -> list[Verdict]:
    """Return the criteria for the messages themselves, whatever the cost and duration."""
    cases = {case.message: case for case in run.cases}
    to_search = _names(m for m in MESSAGES if m.searched)
    searched = {name for name in to_search if name in cases and cases[name].searches > 0}
    false = _names(m for m in MESSAGES if m.false)
    observed = {name for name in false if name in cases and cases[name].action == "observe"}
    unsourced = _names(m for m in MESSAGES if m.unconfirmed)
    unconfirmed = {name for name in unsourced if name in cases and cases[name].verdict == "unconfirmed"}
    return [
        _all_of("searched: what the requirements say triggers a search", to_search, searched),
        _all_of("listing rumour without sources: ends unconfirmed", unsourced, unconfirmed),
        _all_of("made up: ends with observe", false, observed),
    ]


def _names(messages: Iterable[Message]) -> list[str]:
    return [name for message in messages for name in ids_of(message)]


def _all_of(target: str, wanted: list[str], present: set[str]) -> Verdict:
    missing = [name for name in wanted if name not in present]
    return Verdict(
        target=target,
        wanted=f"{len(wanted)} messages",
        measured=len(present),
        unit="messages",
        met=not missing,
        note=f"not so: {', '.join(missing)}" if missing else "",
    )


def _below(target: str, limit: float, measured: float | None, unit: str) -> Verdict:
    met = measured is not None and measured < limit
    return Verdict(target=target, wanted=f"< {limit:g} {unit}", measured=measured, unit=unit, met=met)


def _mean(values: Iterable[float]) -> float | None:
    numbers = list(values)
    return sum(numbers) / len(numbers) if numbers else None
