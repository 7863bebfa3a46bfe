"""Training cutoffs of models: a model may know what came of a case from before its cutoff. The table is ``cutoffs.json``."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime, time
from functools import lru_cache
from importlib import resources

import msgspec


class Cutoff(msgspec.Struct, frozen=True, kw_only=True):
    """A training cutoff. ``model`` is a prefix of the model's name; ``source`` stated the cutoff on the day ``as_of``."""

    model: str
    cutoff: date
    as_of: date
    source: str


@lru_cache(maxsize=1)
def cutoffs() -> tuple[Cutoff, ...]:
    """Return the table, longest model prefix first."""
    raw = resources.files(__package__).joinpath("cutoffs.json").read_bytes()
    return tuple(sorted(msgspec.json.decode(raw, type=list[Cutoff]), key=lambda c: -len(c.model)))


@lru_cache(maxsize=256)
def cutoff_of(model: str) -> datetime | None:
    """Return the end (UTC) of a model's training data, or None when the table does not list the model."""
    name = model.rpartition("/")[2].lower()
    entry = next((c for c in cutoffs() if name.startswith(c.model)), None)
    return None if entry is None else datetime.combine(entry.cutoff, time.max, UTC)


def known_to_training(models: Iterable[str | None], at: datetime) -> bool:
    """Return whether any of these models may have seen events around ``at`` (UTC) in its training data."""
    return any(end is not None and at <= end for end in (cutoff_of(m) for m in models if m))
