"""One line of ``newsproof doctor``."""

from __future__ import annotations

from typing import Literal

import msgspec

State = Literal["ok", "note", "missing"]


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One thing looked at. ``missing`` is what must be mended, ``note`` is worth knowing."""

    name: str
    state: State
    found: str
    do: str = ""
