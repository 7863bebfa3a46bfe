"""Options of the runtime. No case depends on them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import msgspec

from schemas.topics import Topics
from streams.effects.breakers import BreakerPolicy
from streams.journal.clock import utc_now

GRACE_ON_REVOKE_S = 5.0
"""Time for running effects to end on revocation. A call that still runs after it may be paid twice, and is counted."""


class WorkerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a worker. Times in seconds; see the settings with these names. ``clock`` times second looks."""

    slot: str = "0"
    slot_dir: Path = Path(".data/slots")
    partitions: int = 4
    max_open_cases: int = 2000
    step_concurrency: int = 64
    effects_in_flight: int = 256
    dedup_days: int = 30
    crash_suspect_after: int = 3
    session_timeout_s: float = 10.0
    breakers: BreakerPolicy = BreakerPolicy()
    heartbeat_s: float = 2.0
    commit_interval_s: float = 1.0
    clock: Callable[[], datetime] = utc_now

    def fold_directory(self, topics: Topics) -> Path:
        """Return the directory in which this slot stores its folds of these topics."""
        return self.slot_dir / f"{topics.prefix}{self.slot}"
