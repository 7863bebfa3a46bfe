"""The editable tables, read once from the JSON files beside this module.

``entities.json`` (official sources, one row a line), ``entities_demo.json`` (their synthetic ``.example`` twins),
``event_terms.json``, ``credibility.json``, ``lexicon.json``, ``search_roles.json`` (providers by role and event).
No other module reads these files.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import resources
from typing import TypeVar

import msgspec

from schemas.config import Entity, Tables

T = TypeVar("T")
_Words = dict[str, tuple[str, ...]]


@lru_cache(maxsize=2)
def load_tables(*, demo: bool) -> Tables:
    """Return the packaged tables; with ``demo``, also the synthetic official hosts of the bundled corpus.

    Raises:
        msgspec.ValidationError: an edited file does not match the shape of its table.
    """
    entities = _read("entities.json", tuple[Entity, ...])
    if demo:
        entities += _read("entities_demo.json", tuple[Entity, ...])
    return Tables(
        entities=entities,
        event_terms=_read("event_terms.json", _Words),
        credibility=_read("credibility.json", _Words),
        lexicon=_read("lexicon.json", _Words),
        search_roles=_read("search_roles.json", _Words),
    )


def _read(name: str, shape: type[T]) -> T:
    return msgspec.json.decode(resources.files(__name__).joinpath(name).read_bytes(), type=shape)
