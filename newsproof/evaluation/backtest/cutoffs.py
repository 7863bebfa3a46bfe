"""When the training data of a model ends: of older news it may know how it came out, so its judgement of it proves little."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime, time
from functools import lru_cache
from importlib import resources

import msgspec


class Cutoff(msgspec.Struct, frozen=True, kw_only=True):
    """``model`` is the beginning of the model's name; ``as_of`` the day on which ``source`` said so."""

    model: str
    cutoff: date
    as_of: date
    source: str


@lru_cache(maxsize=1)
def cutoffs() -> tuple[Cutoff, ...]:
    """Return the table, the most precise names first."""
    raw = resources.files(__package__).joinpath("cutoffs.json").read_bytes()
    return tuple(sorted(msgspec.json.decode(raw, type=list[Cutoff]), key=lambda c: -len(c.model)))


@lru_cache(maxsize=256)
def cutoff_of(model: str) -> datetime | None:
    """Return the end of the training data of a model, None where the table does not know it."""
    name = model.rpartition("/")[2].lower()
    found = next((c for c in cutoffs() if name.startswith(c.model)), None)
    return None if found is None else datetime.combine(found.cutoff, time.max, UTC)


def known_to_training(models: Iterable[str | None], at: datetime) -> bool:
    """Whether any of these models may have read in its training what happened around ``at`` (UTC)."""
    return any(end is not None and at <= end for end in (cutoff_of(m) for m in models if m))
