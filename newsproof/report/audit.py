"""The audit's report in words and tables."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from newsproof.app.sheet import advise, say_result, table
from streams.audit.audit import AuditReport
from streams.audit.signals import FaultySignal


def print_audit(report: AuditReport) -> None:
    """Print the audit's counts, the forged and the overstated signals, and the verdict."""
    figures = msgspec.structs.asdict(report)
    forged, overstated = figures.pop("forged"), figures.pop("overstated")
    table(("audit", "count"), figures.items(), title="Audit of the whole log", right=("count",))
    _print_second_analyses(report)
    if report.unchecked_sources:
        say_result(
            f"The sources of {report.unchecked_sources} cases were not checked, because the listener's key is missing. Run the audit on "
            "the listener's data directory, or set LISTENER_KEY."
        )
    if report.clean:
        return say_result("Clean: nothing is lost, duplicated, forged or overstated.")
    if report.lost or report.duplicate_events or report.duplicate_signals:
        advise(
            "NOT CLEAN: lost, duplicate_events and duplicate_signals should be 0. `newsproof cases --status open` and "
            "`newsproof dlq list` show where."
        )
    _print_altered(report)
    if overstated:
        _print_faulty(overstated, f"Overstated signals ({len(overstated)} of {report.overstated_signals})")
        advise(
            "NOT CLEAN: the pipeline published more than its search found. Do not act on these signals, and report a "
            "bug with the output of `newsproof case` for one of them."
        )
    if forged:
        _print_faulty(forged, f"Forged or altered signals ({len(forged)} of {report.forged_signals})")
        say_result(
            "NOT CLEAN: somebody other than the publisher wrote to the signals topic. Do not act on these records, and warn your "
            "subscribers. Then revoke all other write access to the topic, and change the passwords that had it."
        )


def _print_altered(report: AuditReport) -> None:
    if report.unproven_sources:
        advise(
            f"NOT CLEAN: {report.unproven_sources} cases count as news of a listed source, but their signature is not valid "
            "with this key. Either LISTENER_KEY was changed (add the old key after the new one, separated by a "
            "comma), or somebody else wrote to the journal: do not act on signals from these sources."
        )
    if report.recorded_days_changed:
        advise(
            "NOT CLEAN: the log no longer gives what the record published. `newsproof record verify` shows what was changed."
        )
    if report.entries_delivered_twice or report.entries_attempted_again:
        advise(
            "NOT CLEAN: a bot entered a position again that it had entered, or perhaps had: compare the positions at the "
            "destination with `newsproof sql \"SELECT * FROM v_deliveries WHERE intent = 'enter'\"`, close what is too much "
            "by hand, and report a bug."
        )


def _print_second_analyses(report: AuditReport) -> None:
    again, of = report.second_analysis_calls, report.model_calls
    if of:
        say_result(f"Second looks and later reports of an event made {again} of {of} model calls ({again / of:.0%}).")


def _print_faulty(signals: Sequence[FaultySignal], title: str) -> None:
    rows = [(signal.partition, signal.offset, signal.why) for signal in signals]
    table(("partition", "offset", "why"), rows, title=title, right=("partition", "offset"))
