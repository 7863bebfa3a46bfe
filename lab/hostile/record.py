"""One hostile record and its expected fate."""

from __future__ import annotations

from typing import Literal

import msgspec

Fate = Literal["case", "dead_letter", "case_or_dead_letter", "failed_case", "passed_by", "foreign", "ignored"]
"""The expected fate of a record.

``case``: it opens a case, which ends like any other. ``dead_letter``: it becomes a dead letter. ``failed_case``: a journal
record that the acceptance rule accepts and that cannot be decoded; its case fails, with a dead letter. ``passed_by``: a
complete journal record that the acceptance rule ignores. ``foreign``: ignored on a topic without cases or
letters, and counted by the audit. ``ignored``: on the lease topic, whose records nobody reads.
"""

Headers = list[tuple[str | bytes, bytes | None]]
"""Names given as bytes are sent to the broker unchanged."""


class HostileRecord(msgspec.Struct, frozen=True, kw_only=True):
    """``topic`` has no prefix. ``partition`` None: chosen by the key. ``kind`` names the fault of the record."""

    kind: str
    topic: str
    fate: Fate
    key: bytes | None
    value: bytes | None
    headers: Headers = []
    partition: int | None = None
