"""Replay: runs a recorded case again, with today's steps and a chosen configuration. Pure.

    recordings ─► Recording ─► replay(recording, snapshot) ─► Need (an effect without a recorded reply) ─► ReplayResult

An effect whose request hash is in the recording gets the recorded reply. Any other is yielded as a :class:`Need`, which
the replay's driver fulfils or declares a miss.
"""

from __future__ import annotations

from streams.replay.change import Change
from streams.replay.engine import Replay
from streams.replay.outcome import Miss, Need, ReplayResult, UsedCall, reused_alone
from streams.replay.recording import RecordedEvent, Recording, Recordings

__all__ = [
    "Change",
    "Miss",
    "Need",
    "RecordedEvent",
    "Recording",
    "Recordings",
    "Replay",
    "ReplayResult",
    "UsedCall",
    "reused_alone",
]
