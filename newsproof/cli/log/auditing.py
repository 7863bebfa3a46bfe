"""``newsproof audit``: audits the log, and keeps the result."""

from __future__ import annotations

from infra.listeners.mark import keys_at_hand
from newsproof.app.data_access import open_log
from newsproof.app.data_dir import keep_audit
from newsproof.app.invocation import Invocation
from newsproof.app.servers import say_on_stderr
from streams.audit.audit import AuditReport
from streams.audit.audit import audit as audit_log
from streams.journal.clock import utc_now
from streams.journal.log import KafkaLog


async def audited(invocation: Invocation) -> AuditReport:
    """Audit the log, and keep the result for `/metrics` and the page."""
    async with open_log(invocation) as log:
        report = await audit_log(KafkaLog(log.address), log.topics, keys=keys_at_hand(log.settings))
    try:
        keep_audit(log.settings.newsproof_data_dir, report.broken, utc_now())
    except OSError as exc:
        say_on_stderr(f"the result could not be saved, so the page and the alerts still show an earlier audit: {exc}")
    return report
