"""``newsproof backtest verify``: the log's self-test. Asks every step of every case again and makes no calls."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec

from agents.core.registry import Registry
from agents.graphs import verification
from evaluation.backtest.deciding import Deciding
from evaluation.backtest.journal import Source, drawn, recordings, survey
from schemas.config import RULES
from schemas.events import RetractionFound, StoryCorroborated
from streams.journal.gc_thresholds import rarely_collected
from streams.replay import Change, Recording, Replayed, reused_alone
from streams.replay.outcome import signal_bytes

SHOWN = 20
"""Maximum number of differing cases that are listed."""


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A case that differs from its recording, and the step at which it first differed."""

    case_id: str
    status: str
    reason: str
    diverged_at: str


class Verified(msgspec.Struct, kw_only=True):
    """Result of a verification.

    ``identical``: cases whose signal (or end) equals the recorded one byte for byte. ``calls`` is always 0, because a
    verification cannot make calls; replies that it lacked are in ``misses``. ``diverged``: cases in which some event differs
    from the recording, whether or not their signal does. ``other_rules``: cases that other rules of judgement decided, which
    are not replayed: no difference would say anything of the log.
    """

    cases: int = 0
    identical: int = 0
    calls: int = 0
    misses: int = 0
    seconds: float = 0.0
    look_ahead: int = 0
    diverged: int = 0
    other_rules: int = 0
    differences: list[Difference] = []

    def add(self, other: Verified) -> None:
        """Add the result of other cases; the differences of the lowest ids are kept, whoever found them."""
        for name in ("cases", "identical", "calls", "misses", "look_ahead", "diverged", "other_rules"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.differences = _first(self.differences + other.differences)

    @property
    def clean(self) -> bool:
        """Whether every case equals its recording and no reply was missing."""
        return self.cases == self.identical and self.misses == 0


async def verify(
    source: Source,
    *,
    registry: Registry | None = None,
    sample: int = 0,
    mine: Callable[[Any], bool] = lambda _end: True,
) -> Verified:
    """Replay every ended case with nothing changed. ``sample`` > 0 replays that many cases, drawn by their ids.

    ``mine`` chooses of these by the record that ended each, where several processes share them. At most :data:`SHOWN`
    differences are kept, those of the lowest ids, so that they are the same however the cases were shared.
    """
    began = time.perf_counter()
    deciding = Deciding(registry or verification(), source.snapshots, Change(), ask_every_step=True)
    chosen = await _chosen(source, sample) if sample else None
    found = Verified()
    with rarely_collected():
        async for recording in recordings(source, lambda case: chosen is None or case in chosen, mine=mine):
            _look(found, recording, deciding)
    found.seconds = round(time.perf_counter() - began, 3)
    return found


async def _chosen(source: Source, sample: int) -> frozenset[str]:
    return frozenset(drawn((await survey(source)).ended, sample))


def _look(found: Verified, recording: Recording, deciding: Deciding) -> None:
    found.cases += 1
    if recording.unreadable:
        _differs(
            found, Difference(case_id=recording.case_id, status="failed", reason=recording.unreadable, diverged_at="")
        )
        return
    if (rules := deciding.rules_of(recording)) not in (None, RULES):
        found.other_rules += 1
        reason = f"recorded by rules {rules}, and this code decides by rules {RULES}"
        _differs(found, Difference(case_id=recording.case_id, status="refused", reason=reason, diverged_at=""))
        return
    replayed = reused_alone(deciding.replay(recording).run())
    found.misses += replayed.count("miss")
    found.diverged += bool(replayed.diverged_at)
    seen = replayed.look_ahead
    found.look_ahead += seen.evidence + seen.memory + seen.prices
    if same(recording, replayed):
        found.identical += 1
        return
    _differs(
        found,
        Difference(
            case_id=recording.case_id,
            status=replayed.status,
            reason=replayed.reason,
            diverged_at=replayed.diverged_at,
        ),
    )


def same(recording: Recording, replayed: Replayed) -> bool:
    """Return whether the signal (or end) and the retractions equal the recorded ones byte for byte."""
    as_recorded = replayed.signal is not None and replayed.signal is getattr(recording.end, "signal", None)
    if not as_recorded and signal_bytes(replayed.end) != signal_bytes(recording.end):
        return False
    said = [r.event for r in recording.records if isinstance(r.event, RetractionFound | StoryCorroborated)]
    return [signal_bytes(e) for e in said] == [signal_bytes(e) for e in replayed.of_others]


def _differs(found: Verified, difference: Difference) -> None:
    found.differences = _first([*found.differences, difference])


def _first(differences: list[Difference]) -> list[Difference]:
    return sorted(differences, key=lambda d: d.case_id)[:SHOWN]
