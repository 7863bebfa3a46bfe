"""Changes to the pinned configuration in a replay: other prompts, settings or models."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from schemas.config import Prompt, Snapshot
from schemas.errors import ConfigError

_NEVER = frozenset({"prompts", "tables", "calibration", "provider_mode", "code_version", "case_deadline_seconds"})
"""Fields that cannot be changed, because more than the steps depends on them: no real case would have run so."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """Prompts by name, snapshot fields by name, and models (``provider:model``) by task. Empty: an A/A replay.

    No snapshot names a model and no request holds one, so a change of models applies to replies: replies of another
    model to this task are requested again. The driver sends the task's calls to the new model.
    """

    prompts: dict[str, Prompt] = {}
    settings: dict[str, Any] = {}
    models: dict[str, str] = {}

    def applied_to(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with this change.

        Raises:
            ConfigError: an unknown setting or an invalid value; the text names it.
        """
        if not self.prompts and not self.settings:
            return snapshot
        known = {f.name for f in msgspec.structs.fields(Snapshot)} - _NEVER
        if unknown := sorted(set(self.settings) - known):
            raise ConfigError(
                f"{', '.join(unknown)}: no setting of a snapshot; write one of {', '.join(sorted(known))}"
            )
        try:
            fields = msgspec.to_builtins(snapshot) | msgspec.to_builtins(self.settings)
            changed = msgspec.convert(fields, Snapshot)
        except msgspec.ValidationError as exc:
            raise ConfigError(f"a changed setting has a value that it does not take: {exc}") from exc
        return replace(changed, prompts={**snapshot.prompts, **self.prompts}, tables=snapshot.tables)
