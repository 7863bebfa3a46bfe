"""``newsproof budget``: limits, granted and settled amounts, denials and alerts, read from the budget topic alone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import typer

from newsproof.app.data_access import log_to_read
from newsproof.app.invocation import Invocation, json_line, of, run, say_result, table
from newsproof.app.terminal import as_started
from newsproof.cli.options import JsonLines, commands
from schemas.budget import UNLISTED, LimitsSet, nano_usd, usd_of
from streams.budget.reading import read_budget
from streams.budget.rule import BudgetState, DayBook, GroupBook, Money, MonthBook
from streams.journal.clock import utc_now

app = commands()
NO_LIMITS = "The budget topic has no limits yet: a worker writes them when it starts (`newsproof up`)."


@app.command()
def budget(ctx: typer.Context, as_json: JsonLines = False) -> None:
    """Show the budget: limits, spending today and this month, what is left, denials and alerts."""
    run(show_budget(of(ctx), as_json=as_json), late_logs=True)


async def show_budget(invocation: Invocation, *, as_json: bool) -> None:
    async with log_to_read(invocation) as log:
        state = await read_budget(log.address, log.topics)
    document = as_document(state, utc_now())
    if as_json:
        json_line(document)
    else:
        _print(document)


def as_document(state: BudgetState, now: datetime) -> dict[str, Any]:
    """Return the budget at ``now`` (UTC) for JSON, which writes amounts as decimal strings in USD."""
    today = max(state.day, now.astimezone(UTC).date())
    day = state.days.get(today) or DayBook()
    month = state.months.get(today.replace(day=1)) or MonthBook()
    limits = state.limits
    units = 0 if limits is None else limits.daily_units
    return {
        "limits": limits,
        "today": {
            "day": str(today),
            "units_granted": day.units,
            "units_left": max(0, units - day.units),
            **_shares(limits, day),
            "calls_granted": day.granted,
            "denied": day.denied,
            **_amounts(Money(held=day.held, paid=day.paid)),
        },
        "month": {
            "month": f"{today:%Y-%m}",
            "general": _pot(month.general, None if limits is None else nano_usd(limits.monthly_usd)),
            "triage_reserve": _pot(month.triage, None if limits is None else nano_usd(limits.triage_reserve_usd)),
            "above_reservations_usd": usd_of(month.above_usd),
        },
        "denied_by_day": {str(at): book.denied for at, book in sorted(state.days.items()) if book.denied},
        "unsettled": len(state.held),
        "news_waits_because": state.why_not_admit(0, now),
        "alerts": [{"day": str(a.at), "kind": a.kind, "text": a.text} for a in state.alerts],
        "unreadable_records": state.garbage,
    }


def _shares(limits: LimitsSet | None, day: DayBook) -> dict[str, Any]:
    """Return what each share of the day has, and may have."""
    return {
        "units_investigation": {
            "granted": day.units_investigation,
            "limit": 0 if limits is None else limits.investigation_units,
        },
        "units_doubtful": {
            "granted": day.units_doubtful,
            "limit": 0 if limits is None else limits.doubtful_units,
        },
        "units_forced": {
            "granted": day.units_forced,
            "kept": 0 if limits is None else limits.forced_units,
        },
        "general_usd": {
            "granted": usd_of(day.general),
            "limit": None if limits is None else usd_of(limits.daily_nano),
        },
        "sources": {name: _of_sources(limits, name, book) for name, book in sorted(day.groups.items())},
    }


def _of_sources(limits: LimitsSet | None, name: str, book: GroupBook) -> dict[str, Any]:
    """Return what a group of sources has of the day, and its share."""
    return {
        "units_granted": book.units,
        "units_limit": 0 if limits is None else limits.share_of(name, limits.daily_units),
        "granted_usd": usd_of(book.nano),
        "triage_usd": usd_of(book.triage_nano),
        "limit_usd": None if limits is None else usd_of(limits.share_of(name, limits.daily_nano)),
    }


def _pot(pot: Money, limit: int | None) -> dict[str, Any]:
    left = None if limit is None else usd_of(max(0, limit - pot.used))
    return {"limit_usd": None if limit is None else usd_of(limit), **_amounts(pot), "left_usd": left}


def _amounts(pot: Money) -> dict[str, Any]:
    return {"granted_usd": usd_of(pot.used), "settled_usd": usd_of(pot.paid), "unsettled_usd": usd_of(pot.held)}


def _print(document: dict[str, Any]) -> None:
    if document["limits"] is None:
        say_result(as_started(NO_LIMITS))
        return
    today, month = document["today"], document["month"]
    rows = [
        (
            name,
            f"{pot['limit_usd']:.4f}",
            f"{pot['settled_usd']:.4f}",
            f"{pot['unsettled_usd']:.4f}",
            f"{pot['left_usd']:.4f}",
        )
        for name, pot in (("all calls", month["general"]), ("triage reserve", month["triage_reserve"]))
    ]
    columns = ("USD", "limit", "settled", "unsettled", "left")
    table(columns, rows, title=f"{month['month']} (UTC)", right=columns[1:])
    say_result(
        f"Today, {today['day']}: {today['units_granted']} of {document['limits'].daily_units} tool calls, "
        f"{today['calls_granted']} paid calls, {today['settled_usd']:.4f} USD settled, {today['unsettled_usd']:.4f} USD unsettled."
    )
    doubtful, forced, asked = today["units_doubtful"], today["units_forced"], today["units_investigation"]
    say_result(
        f"Tool calls by use: {doubtful['granted']} for rumoured or planned claims (at most {doubtful['limit']}), "
        f"{forced['granted']} for hacks, depegs and liquidations ({forced['kept']} reserved), "
        f"{asked['granted']} for investigations (at most {asked['limit']})."
    )
    _print_sources(today["sources"])
    if document["limits"].allow_unpriced:
        say_result("Calls of unknown price are allowed and count as 0 USD (ALLOW_UNPRICED).")
    for at, reasons in document["denied_by_day"].items():
        say_result(f"Denied on {at}: " + ", ".join(f"{reason} {count}" for reason, count in sorted(reasons.items())))
    for alert in document["alerts"]:
        say_result(f"Alert, {alert['day']}: {alert['text']}")
    if document["news_waits_because"]:
        say_result(f"News is waiting: {document['news_waits_because']}")
    if document["unreadable_records"]:
        say_result(as_started(f"{document['unreadable_records']} records could not be read; see `newsproof dlq list`."))


def _print_sources(sources: dict[str, dict[str, Any]]) -> None:
    for name, group in sources.items():
        who = "Unlisted sources" if name == UNLISTED else f"Sources of {name}"
        say_result(
            f"{who}: {group['units_granted']} of {group['units_limit']} tool calls, {group['granted_usd']:.4f} of "
            f"{group['limit_usd']:.4f} USD; triage: {group['triage_usd']:.4f} USD."
        )
