"""Who stands behind a page: the registrable domain, on a platform the account, for a filing its registrant."""

from __future__ import annotations

from agents.evidence.claim import Claim
from agents.evidence.compiled import Compiled
from agents.evidence.entities import AUTHORITIES
from agents.tables.directory import Directory
from agents.text.hosts import canonical_url, host_of, registrable_domain


def owner_of(url: str, directory: Directory) -> str:
    """Return the owner's key: ``coindesk.com``, ``x.com/circle``, ``sec.gov/1679788``. A medium's account is the medium."""
    if (number := directory.cik_of(url)) is not None:
        return f"sec.gov/{number}"
    if (outlet := directory.outlet_of_account(url)) is not None:
        return outlet.domain
    return directory.account_of(url) or registrable_domain(host_of(url))


def is_partys_page(url: str, tables: Compiled) -> bool:
    """Return whether an address is the own site or account of a listed party or authority, where nobody else may write."""
    kinds = {e.kind for e in tables.directory.speakers_of(url)}
    anybodys = tables.is_user_content(url) and tables.directory.account_of(url) is None
    return bool(kinds - _REPORTERS) and not anybodys


_REPORTERS = frozenset({"media", "data"})


def speaker_of(url: str, claim: Claim, tables: Compiled) -> str | None:
    """Return who speaks for the claim's party, or as the competent authority, on its own domain at this address.

    A party is who acts or is acted on, the issuer of the coin that is, or the venue of a listing: not everybody whom the news
    mentions. Accounts on platforms and filings do not count: an account may have been taken over, and a filing's title
    claims nothing.
    """
    directory = tables.directory
    if directory.account_of(url) is not None or directory.cik_of(url) is not None or not is_partys_page(url, tables):
        return None
    parties = (claim.subject, claim.entity, claim.venue if claim.event_type == "listing" else None)
    named = [e for name in parties if name for e in tables.entities.named(name)]
    if coin := tables.ticker_of(claim.subject):
        named += directory.issuers_of(coin)
    speaking = tables.entities.speaking(claim)
    for owner in directory.speakers_of(url):
        if owner in (named if owner.kind not in AUTHORITIES else speaking):
            return owner.name
    return None


def addresses_of(claim: Claim) -> frozenset[str]:
    """Return the canonical addresses of the pages that the news itself is from: none of them is evidence for it."""
    return frozenset(canonical_url(url) for url in (claim.source_url, *claim.origins) if url)


def owners_of(claim: Claim, directory: Directory) -> frozenset[str]:
    """Return the owners of the pages that the news was made of: none of their pages bears it out."""
    return frozenset(owner_of(url, directory) for url in claim.origins)
