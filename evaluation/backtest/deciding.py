"""Builds the replay of one recorded case under a change: its snapshot, and which replies may be reused."""

from __future__ import annotations

from collections.abc import Mapping

from agents.core.registry import Registry
from newsproof.app.version import code_version
from schemas.config import Snapshot
from streams.replay import Change, Recording, Replay


class Deciding:
    """Builds replays for the cases of one log. With ``ask_every_step`` no step is taken from the recording."""

    def __init__(
        self,
        registry: Registry,
        snapshots: Mapping[str, Snapshot],
        change: Change,
        *,
        ask_every_step: bool = False,
        code: str | None = None,
    ) -> None:
        self._registry = registry
        self._snapshots = snapshots
        self._change = change
        self._code = code_version() if code is None else code
        self._every = ask_every_step or bool(change.settings)
        self._changed: dict[str, tuple[Snapshot | None, frozenset[str] | None]] = {}

    def replay(self, recording: Recording, *, from_step: str | None = None) -> Replay:
        """Return the replay of this case. Steps before ``from_step`` keep their recorded results, whatever changes.

        Raises:
            ConfigError: the change does not fit the case's snapshot.
        """
        config_hash = recording.config_hash
        if config_hash not in self._changed:
            self._changed[config_hash] = self._decided_by(self._snapshots.get(config_hash))
        snapshot, changed = self._changed[config_hash]
        return Replay(
            recording, snapshot, self._registry, changed=changed, from_step=from_step, models=self._change.models
        )

    def rules_of(self, recording: Recording) -> int | None:
        """Return the rules of judgement that the case was recorded by, None if its snapshot is missing."""
        pinned = self._snapshots.get(recording.config_hash)
        return None if pinned is None else pinned.rules

    def _decided_by(self, pinned: Snapshot | None) -> tuple[Snapshot | None, frozenset[str] | None]:
        if pinned is None:
            return None, None
        other = frozenset(n for n, p in self._change.prompts.items() if pinned.prompts.get(n) != p)
        # Steps are deterministic, so the same code gives the same result; every step of another code version is asked.
        as_recorded = not self._every and pinned.code_version == self._code
        return self._change.applied_to(pinned), other if as_recorded else None
