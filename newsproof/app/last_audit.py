"""The result of the last `newsproof audit`, kept in the data directory for `/metrics` and the page of operations."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from infra.owner_only import write_owner_only

if TYPE_CHECKING:
    from streams.audit.audit import AuditReport


class LastAudit(msgspec.Struct, frozen=True):
    """When the audit ended (UTC), and how often each promise was broken; promises that held are in it too, with 0."""

    at: datetime
    broken: dict[str, int]


def keep_audit(directory: Path, report: AuditReport, at: datetime) -> None:
    """Keep this result in place of the one before; a directory that does not exist is not made.

    Raises:
        OSError: it cannot be written.
    """
    if directory.is_dir():
        write_owner_only(_file(directory), msgspec.json.encode(LastAudit(at, report.broken)).decode())


def last_audit(directory: Path) -> LastAudit | None:
    """Return the result that was kept last; None if there is none that can be read."""
    try:
        return msgspec.json.decode(_file(directory).read_bytes(), type=LastAudit)
    except (OSError, msgspec.MsgspecError):
        return None


def _file(directory: Path) -> Path:
    return directory / "audit.json"
