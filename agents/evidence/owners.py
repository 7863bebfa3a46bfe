"""Who stands behind a page: the registrable domain, on a platform the account, for a filing its registrant."""

from __future__ import annotations

from agents.evidence.hosts import host_of, registrable_domain
from agents.tables.directory import Directory


def owner_of(url: str, directory: Directory) -> str:
    """Return the owner's key: ``coindesk.com``, ``x.com/circle``, ``sec.gov/1679788``."""
    if (number := directory.cik_of(url)) is not None:
        return f"sec.gov/{number}"
    return directory.account_of(url) or registrable_domain(host_of(url))
