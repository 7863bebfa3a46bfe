"""Owners of pages: the registrable domain, on a platform the account, for a filing the registrant."""

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
    """Return whether the address is on the site or account of a listed party or authority, where nobody else can publish."""
    kinds = {e.kind for e in tables.directory.speakers_of(url)}
    anybodys = tables.is_user_content(url) and tables.directory.account_of(url) is None
    return bool(kinds - _REPORTERS) and not anybodys


_REPORTERS = frozenset({"media", "data"})


def speaker_of(url: str, claim: Claim, tables: Compiled) -> str | None:
    """Return the party of the claim, or the competent authority, whose own domain this address is on; else None.

    The parties are the subject, the issuer if the subject is a coin, and the venue of a listing, not every name in the news.
    Accounts on platforms and filings do not count: an account may be compromised, and a filing's title claims nothing.
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
    """Return the canonical addresses of the news itself and its origins, which are not evidence for it."""
    return frozenset(canonical_url(url) for url in (claim.source_url, *claim.origins) if url)


def owners_of(claim: Claim, directory: Directory) -> frozenset[str]:
    """Return the owners of the news' origins. None of their pages corroborates the news."""
    return frozenset(owner_of(url, directory) for url in claim.origins)
