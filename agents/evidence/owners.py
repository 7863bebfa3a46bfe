"""Who stands behind a page: the registrable domain, on a platform the account, for a filing its registrant."""

from __future__ import annotations

from agents.evidence.claim import Claim
from agents.evidence.hosts import canonical_url, host_of, registrable_domain
from agents.tables.directory import Directory


def owner_of(url: str, directory: Directory) -> str:
    """Return the owner's key: ``coindesk.com``, ``x.com/circle``, ``sec.gov/1679788``. A medium's account is the medium."""
    if (number := directory.cik_of(url)) is not None:
        return f"sec.gov/{number}"
    if (outlet := directory.outlet_of_account(url)) is not None:
        return outlet.domain
    return directory.account_of(url) or registrable_domain(host_of(url))


def addresses_of(claim: Claim) -> frozenset[str]:
    """Return the canonical addresses of the pages that the news itself is from: none of them is evidence for it."""
    return frozenset(canonical_url(url) for url in (claim.source_url, *claim.origins) if url)


def owners_of(claim: Claim, directory: Directory) -> frozenset[str]:
    """Return the owners of the pages that the news was made of: none of their pages bears it out."""
    return frozenset(owner_of(url, directory) for url in claim.origins)
