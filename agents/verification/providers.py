"""Which search providers a case asks: the role that its event calls for, from a table that a person edits."""

from __future__ import annotations

from schemas.config import Snapshot

DEFAULT_ROLE = "verification"


def providers_of(config: Snapshot, event_type: str) -> tuple[str, ...]:
    """Return the providers to ask, in order of priority: those of the role that the snapshot has, else all it has.

    ``agents/tables/search_roles.json`` names the providers of each role, and with ``event:<type>`` the role of an event
    type; every other event has the role ``verification``.
    """
    roles = config.tables.search_roles
    role = next(iter(roles.get(f"event:{event_type}", ())), DEFAULT_ROLE)
    wanted = roles.get(role, ())
    return tuple(name for name in config.search_providers if name in wanted) or config.search_providers
