"""What a replay decides by instead of what was pinned: other prompts, other settings."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from schemas.config import Prompt, Snapshot
from schemas.errors import ConfigError

_NEVER = frozenset({"prompts", "tables", "provider_mode", "code_version", "case_deadline_seconds"})
"""Not settings that a step decides by alone: changed, they would tell of a case that was never run so."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """Prompts by name, and fields of the snapshot by name. Empty: nothing changed, an A/A replay."""

    prompts: dict[str, Prompt] = {}
    settings: dict[str, Any] = {}

    def applied_to(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with this change.

        Raises:
            ConfigError: a setting that no snapshot has, or a value that it does not take; the text says which.
        """
        if not self.prompts and not self.settings:
            return snapshot
        known = {f.name for f in msgspec.structs.fields(Snapshot)} - _NEVER
        if unknown := sorted(set(self.settings) - known):
            raise ConfigError(
                f"{', '.join(unknown)}: no setting of a snapshot; write one of {', '.join(sorted(known))}"
            )
        fields = {name: getattr(snapshot, name) for name in Snapshot.__struct_fields__} | self.settings
        try:
            changed = msgspec.convert(msgspec.to_builtins(fields), Snapshot)
        except msgspec.ValidationError as exc:
            raise ConfigError(f"a changed setting has a value that it does not take: {exc}") from exc
        return replace(changed, prompts={**snapshot.prompts, **self.prompts}, tables=snapshot.tables)
