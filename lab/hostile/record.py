"""One hostile record, and what must become of it."""

from __future__ import annotations

from typing import Literal

import msgspec

Fate = Literal["case", "letter", "case_or_letter", "failed_case", "passed_by", "foreign", "ignored"]
"""What must become of a record.

``case``: it opens a case, which ends like any other. ``letter``: it is a dead letter. ``failed_case``: a journal record
that the rule accepts and nobody can read: its case ends as failed, with a dead letter. ``passed_by``: a whole journal
record that the rule of acceptance passes by. ``foreign``: passed by on a topic that has neither cases nor letters, counted
by the audit. ``ignored``: on the lease topic, whose records nobody reads.
"""

Headers = list[tuple[str | bytes, bytes | None]]
"""Names that are bytes go to the broker as they are."""


class HostileRecord(msgspec.Struct, frozen=True, kw_only=True):
    """``topic`` is the name without its prefix. ``partition`` None: by the key. ``kind`` says what is wrong with it."""

    kind: str
    topic: str
    fate: Fate
    key: bytes | None
    value: bytes | None
    headers: Headers = []
    partition: int | None = None
