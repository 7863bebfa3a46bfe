"""``newsproof audit``, ``budget``, ``dlq`` and ``topics``: the contents of the log."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from newsproof.app import exits
from newsproof.app.data_access import log_to_read, open_log
from newsproof.app.dead_letters import Choice, DeadLetter, DeadLetters, chosen_of, named, replacement_of
from newsproof.app.invocation import Invocation
from newsproof.app.servers import say_on_stderr, servers
from newsproof.app.sheet import SECOND, Columns, Sheet, advise, json_line, json_lines, say_result, table
from newsproof.app.terminal import bytes_of_output
from newsproof.cli.options import JsonLines, ListGroup, argument, command, commands, option
from schemas.budget import UNLISTED, VERIFICATIONS, LimitsSet, nano_usd, usd_of
from schemas.printable import counted, shortened

if TYPE_CHECKING:
    from streams.audit.audit import AuditReport
    from streams.budget.rule import BudgetState, DayBook, GroupBook, Money


app = commands()
SHOWN = ("cleanup.policy", "retention.ms", "max.message.bytes", "message.timestamp.type")
"""Topic settings that `topics describe` prints."""
topics = typer.Typer(help="Create and describe the Kafka topics.", no_args_is_help=True)
dlq = typer.Typer(
    cls=ListGroup,
    help="Dead letters: records that could not be read, and failed cases. Without a command: `list`.",
)
app.add_typer(topics, name="topics")
app.add_typer(dlq, name="dlq")


@command(app, late_logs=True)
async def audit(invocation: Invocation, as_json: JsonLines = False) -> int:
    """Check the whole log for lost, duplicate and forged records.

    Exit status 1 if a record is lost or duplicated, if a signal is forged or claims more than the search found, or if a case of a
    listed source lacks the listener's signature.
    """
    from newsproof.report.audit import print_audit

    report = await _audited(invocation)
    json_line(report) if as_json else print_audit(report)
    return exits.OK if report.clean else exits.FINDING


async def _audited(invocation: Invocation) -> AuditReport:
    """Audit the log, and keep the result for `/metrics` and the page."""
    from infra.listeners.mark import keys_at_hand
    from newsproof.app.data_dir import keep_audit
    from streams.audit.audit import audit as audit_log
    from streams.journal.clock import utc_now
    from streams.journal.log import KafkaLog

    async with open_log(invocation) as log:
        report = await audit_log(KafkaLog(log.address), log.topics, keys=keys_at_hand(log.settings))
    try:
        keep_audit(log.settings.newsproof_data_dir, report.broken, utc_now())
    except OSError as exc:
        say_on_stderr(f"the result could not be saved, so the page and the alerts still show an earlier audit: {exc}")
    return report


@command(topics, "create")
async def create_topics(invocation: Invocation, as_json: JsonLines = False) -> None:
    """Create missing topics, and check the others' partitions.

    An existing topic with another partition count is an error.

    Raises:
        ConfigError: a topic exists with another partition count.
    """
    from newsproof.app.composition import prepare_topics

    settings = invocation.settings()
    async with servers(settings, clickhouse=False) as running:
        created = await prepare_topics(running.applied_to(settings))
    if as_json:
        json_line({"created": created})
    elif created:
        table(("created", "partitions"), created.items(), right=("partitions",))
    else:
        say_result("All topics already exist.")


@command(topics, "describe")
async def describe_topics(invocation: Invocation, as_json: JsonLines = False) -> None:
    """Show every topic with its partitions, records and settings."""
    from infra.kafka.topics import offsets_of, topic_specs
    from newsproof.app.composition import address_of, topics_of

    rows: list[dict[str, Any]] = []
    async with open_log(invocation) as log:
        names = list(topic_specs(topics_of(log.settings), partitions=log.settings.topic_partitions))
        async with address_of(log.settings).admin() as admin:
            existing = set(await admin.list_topics())
            present = [name for name in names if name in existing]
            configs = await _topic_configs(admin, present)
        for name in names:
            bounds = await offsets_of(log.address, name) if name in existing else {}
            offsets = sum(end - first for first, end in bounds.values())
            row = {"topic": name, "exists": name in existing, "partitions": len(bounds), "offsets": offsets}
            rows.append(row | {key: configs.get(name, {}).get(key, "") for key in SHOWN})
    Sheet.of(rows, {name: name for name in rows[0]}).show(as_json=as_json)


async def _topic_configs(admin: Any, names: list[str]) -> dict[str, dict[str, str]]:
    from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

    wanted = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
    described: dict[str, dict[str, str]] = {}
    for response in await admin.describe_topic_configs(wanted) if wanted else ():
        for _code, _message, _kind, name, entries in response.resources:
            described[name] = {entry[0]: entry[1] for entry in entries}
    return described


Which = Annotated[str, argument("Dead letter id from `dlq list`, such as 2:17.", metavar="ID")]


@command(dlq, "list", late_logs=True)
async def list_letters(
    invocation: Invocation,
    reason: Annotated[str | None, option("Only dead letters with this reason, such as not_json.")] = None,
    as_json: JsonLines = False,
) -> None:
    """List dead letters with their reasons."""
    async with log_to_read(invocation) as log:
        letters = [
            letter for letter in await DeadLetters(log.address, log.topics).read() if reason in (None, letter.reason)
        ]
    if as_json:
        return json_lines(map(letter_document, letters))
    columns: Columns = {
        "id": "id",
        "when": ("at", SECOND),
        "from": lambda letter: (
            f"{letter.topic} {letter.partition}:{letter.offset}" if letter.topic else f"case {(letter.case or '?')[:8]}"
        ),
        "reason": "reason",
        "why": "why",
        "state": lambda letter: "sent again" if letter.requeued else "",
        "value": lambda letter: shortened(letter.preview, 50),
    }
    Sheet.of(letters, columns, title=counted(len(letters), "dead letter")).print()


@command(dlq, late_logs=True)
async def show(
    invocation: Invocation,
    id: Which,
    value: Annotated[bool, option("Print only the original bytes, to correct them in a file.", "--value")] = False,
    as_json: JsonLines = False,
) -> None:
    """Show one dead letter: its reason and the original record."""
    async with log_to_read(invocation) as log:
        dead_letter = named(await DeadLetters(log.address, log.topics).read(), id)
    if value:
        _print_value(dead_letter.value or b"")
    elif as_json:
        json_line(letter_document(dead_letter))
    else:
        for name, shown in letter_document(dead_letter).items():
            say_result(f"{name:>10}  {shown}")


def _print_value(value: bytes) -> None:
    """Write the bytes unchanged to a file or pipe, for correction and requeueing; to a terminal as printable text."""
    output = bytes_of_output()
    if output is None:
        say_result(value.decode("utf-8", "replace"))
    else:
        output.write(value)
        output.flush()


@command(dlq)
async def requeue(
    invocation: Invocation,
    id: Annotated[list[str] | None, argument("Dead letters to send again.", metavar="[ID]…")] = None,
    all_of_reason: Annotated[str | None, option("Send all dead letters with this reason.", "--reason")] = None,
    everything: Annotated[bool, option("Send all dead letters that can be sent again.", "--all")] = False,
    value: Annotated[Path | None, option("Send this file's bytes instead of the original (one ID only).")] = None,
    again: Annotated[bool, option("Include dead letters that were sent again before.", "--again")] = False,
    as_json: JsonLines = False,
) -> None:
    """Send dead letters to their topic again.

    Fix the cause first, or they become dead letters again.

    Raises:
        ConfigError: nothing or too much is chosen, or a dead letter cannot be sent again.
    """
    choice = Choice(ids=tuple(id or ()), reason=all_of_reason, everything=everything, value=value, again=again)
    replacement = replacement_of(choice)
    async with log_to_read(invocation) as log:
        letters = DeadLetters(log.address, log.topics)
        chosen = chosen_of(await letters.read(), choice, log.topics.news)
        await letters.send(chosen, replacement)
    sent = [dead_letter.id for dead_letter in chosen]
    json_line({"requeued": sent}) if as_json else say_result(f"sent {len(sent)} again: {', '.join(sent) or 'none'}")


def letter_document(dead_letter: DeadLetter) -> dict[str, Any]:
    about = {f: getattr(dead_letter, f) for f in DeadLetter.__struct_fields__ if f not in ("key", "value", "headers")}
    return about | {
        "key": None if dead_letter.key is None else dead_letter.key.decode("utf-8", "backslashreplace"),
        "value": dead_letter.preview,
        "headers": {k: v.decode("utf-8", "backslashreplace") for k, v in dead_letter.headers},
    }


NO_LIMITS = "The budget topic has no limits yet: a worker writes them when it starts (`newsproof up`)."


@command(app, late_logs=True)
async def budget(invocation: Invocation, as_json: JsonLines = False) -> None:
    """Show the budget: limits, spending today and this month, what is left, denials and alerts."""
    from streams.budget.reading import read_budget
    from streams.journal.clock import utc_now

    async with log_to_read(invocation) as log:
        state = await read_budget(log.address, log.topics)
    document = budget_document(state, utc_now())
    json_line(document) if as_json else _print_budget(document)


def budget_document(state: BudgetState, now: datetime) -> dict[str, Any]:
    """Return the budget at ``now`` (UTC) for JSON, which writes amounts as decimal strings in USD."""
    from streams.budget.rule import DayBook, Money, MonthBook

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
    """Return the used amount and the limit of each share of the day's budget."""

    def units(kind: str) -> int:
        return 0 if limits is None else getattr(limits, f"{kind}_units")

    daily_usd = None if limits is None else usd_of(limits.daily_nano)
    return {
        "units_investigation": {"granted": day.units_investigation, "limit": units("investigation")},
        "units_doubtful": {"granted": day.units_doubtful, "limit": units("doubtful")},
        "units_forced": {"granted": day.units_forced, "kept": units("forced")},
        "general_usd": {"granted": usd_of(day.general), "limit": daily_usd},
        "sources": {name: _source_group(limits, name, book) for name, book in sorted(day.groups.items())},
    }


def _source_group(limits: LimitsSet | None, name: str, book: GroupBook) -> dict[str, Any]:
    """Return the used amount and the limit of a group of sources."""
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


def _print_budget(document: dict[str, Any]) -> None:
    if document["limits"] is None:
        advise(NO_LIMITS)
        return
    today, month = document["today"], document["month"]
    pots = (("all calls", month["general"]), ("triage reserve", month["triage_reserve"]))
    amounts: Columns = {name: (f"{name}_usd", ".4f") for name in ("limit", "settled", "unsettled", "left")}
    rows = [{"name": name, **pot} for name, pot in pots]
    Sheet.of(rows, {"USD": "name", **amounts}, title=f"{month['month']} (UTC)").print()
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
        advise(f"{document['unreadable_records']} records could not be read; see `newsproof dlq list`.")


def _print_sources(sources: dict[str, dict[str, Any]]) -> None:
    for name, group in sources.items():
        who = {UNLISTED: "Unlisted sources", VERIFICATIONS: "Verifications"}.get(name, f"Sources of {name}")
        say_result(
            f"{who}: {group['units_granted']} of {group['units_limit']} tool calls, {group['granted_usd']:.4f} of "
            f"{group['limit_usd']:.4f} USD; triage: {group['triage_usd']:.4f} USD."
        )
