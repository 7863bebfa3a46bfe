"""Results of ``newsproof doctor``, one a check."""

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


def ok(name: str, found: str, do: str = "") -> Check:
    return Check(name=name, state="ok", found=found, do=do)


def note(name: str, found: str, do: str = "") -> Check:
    return Check(name=name, state="note", found=found, do=do)


def missing(name: str, found: str, do: str = "") -> Check:
    return Check(name=name, state="missing", found=found, do=do)
