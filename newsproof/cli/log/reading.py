"""Commands that read the log and print signals, cases or the audit."""

from __future__ import annotations

import msgspec

from newsproof.app.invocation import Invocation, json_line, say_result, table
from newsproof.app.open_log import LogAccess, open_log
from newsproof.app.servers import say_on_stderr
from schemas.errors import ConfigError
from schemas.signals import Signal
from streams.audit.audit import AuditReport
from streams.audit.audit import audit as audit_log
from streams.journal.case_reading import read_case, read_cases, read_signals
from streams.journal.log import KafkaLog

STATUSES = ("open", "signal", "dropped", "failed")


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Which signals to show. An empty field matches every signal."""

    assets: tuple[str, ...] = ()
    min_confidence: float = 0.0
    statuses: tuple[str, ...] = ()

    def fits(self, signal: Signal) -> bool:
        return (
            signal.confidence >= self.min_confidence
            and (not self.assets or signal.asset.upper() in {a.upper() for a in self.assets})
            and (not self.statuses or signal.status in self.statuses)
        )


async def show_signals(invocation: Invocation, wanted: Filter, *, follow: bool, as_json: bool) -> None:
    """Print the newest revision of each signal; with ``follow``, all revisions from the earliest on, for ever."""
    async with open_log(invocation) as log:
        if follow:
            if log.own:
                say_on_stderr("No pipeline runs here, so nothing new will come: start `newsproof up`.")
            return await _follow(log, wanted, as_json=as_json)
        newest = {signal.signal_id: signal for signal, _ in await read_signals(KafkaLog(log.address), log.topics)}
        shown = [signal for signal in newest.values() if wanted.fits(signal)]
        if as_json:
            for signal in shown:
                json_line(signal)
            return
        ids = {c.case_id: c.external_id or c.case_id[:8] for c in await read_cases(KafkaLog(log.address), log.topics)}
        from newsproof.report.demo import print_signals

        print_signals(shown, ids, title=f"{len(shown)} of {len(newest)} signals")


async def _follow(log: LogAccess, wanted: Filter, *, as_json: bool) -> None:
    from newsproof.sdk.client import ALL_STATUSES, subscribe

    async for signal in subscribe(statuses=ALL_STATUSES, start="earliest", kafka=log.address, prefix=log.topics.prefix):
        if not wanted.fits(signal):
            continue
        if as_json:
            json_line(signal)
        else:
            say_result(
                f"{signal.decided_at:%Y-%m-%d %H:%M:%S}  {signal.asset or '–':<6} {signal.action:<8}"
                f"{signal.preliminary_confidence:.2f} → {signal.confidence:.2f}  {signal.status:<17}"
                f"{signal.case_id[:8]}  {signal.summary}  [{' '.join(signal.risk_flags)}]"
            )


async def show_cases(invocation: Invocation, *, status: str | None, as_json: bool) -> None:
    """Print one line per case. ``status`` is one of ``STATUSES``; None prints all cases."""
    if status is not None and status not in STATUSES:
        raise ConfigError(f"--status {status!r} is unknown: write {', '.join(STATUSES)}")
    async with open_log(invocation) as log:
        found = [c for c in await read_cases(KafkaLog(log.address), log.topics) if status in (None, c.status)]
    if as_json:
        for one in found:
            json_line(one)
        return
    from newsproof.report.demo import shortened

    rows = [
        (
            c.external_id or "–",
            c.case_id[:8],
            c.source,
            f"{c.received_at:%Y-%m-%d %H:%M:%S}",
            c.event_type,
            c.asset,
            c.status,
            c.end,
            c.events,
            c.calls,
            "unknown" if c.cost_usd is None else f"{c.cost_usd:.4f}",
            shortened(c.text, 50),
        )
        for c in found
    ]
    columns = ("news", "case", "source", "received", "type", "asset", "status", "end", "events", "calls", "USD", "text")
    table(columns, rows, title=f"{len(found)} cases", right=("events", "calls", "USD"))


async def show_case(invocation: Invocation, wanted: str, *, events: bool, as_json: bool) -> None:
    """Print one case; with ``events``, its raw records as JSON lines."""
    from newsproof.cli.log.case_view import find_case, print_story
    from newsproof.report.case_document import document_of

    async with open_log(invocation) as log:
        case_id = await find_case(log.address, log.topics, wanted)
        records = await read_case(KafkaLog(log.address), log.topics, case_id)
        published = [] if events else await read_signals(KafkaLog(log.address), log.topics)
    revisions = [signal for signal, _ in published if signal.case_id == case_id]
    if events:
        for one in records:
            json_line(one)
    elif as_json:
        json_line(document_of(records, revisions))
    else:
        print_story(records, revisions)


async def audited(invocation: Invocation) -> AuditReport:
    async with open_log(invocation) as log:
        return await audit_log(KafkaLog(log.address), log.topics)
