"""One line of ``newsproof doctor``."""

from __future__ import annotations

from typing import Literal

import msgspec

State = Literal["ok", "note", "missing"]


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one check. ``missing`` must be fixed; ``note`` is for information."""

    name: str
    state: State
    found: str
    do: str = ""
