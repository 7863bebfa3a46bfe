"""Credibility of a page's publisher, looked up by its domain in the snapshot's table."""

from __future__ import annotations

from collections.abc import Mapping

from agents.evidence.hosts import registrable_domain
from schemas.evidence import Credibility


class CredibilityTable:
    """The credibility table by domain: exact domains, and patterns such as ``*.gov`` or ``*.gov.*``."""

    def __init__(self, table: Mapping[str, tuple[str, ...]]) -> None:
        self._exact: dict[str, Credibility] = {}
        self._suffixes: list[tuple[str, Credibility]] = []
        self._inner: list[tuple[str, Credibility]] = []
        levels: tuple[Credibility, ...] = ("high", "medium", "low")
        for level in levels:
            for entry in table.get(level, ()):
                if entry.endswith(".*"):
                    self._inner.append((entry[1:-1], level))
                elif entry.startswith("*."):
                    self._suffixes.append((entry[1:], level))
                else:
                    self._exact.setdefault(entry, level)

    def of(self, host: str, official: bool) -> Credibility:
        """Return the credibility of a host. Reserved names (``.example``) match no pattern: nobody vouches for them."""
        domain = registrable_domain(host)
        if official:
            return "high"
        known = self._exact.get(host) or self._exact.get(domain)
        if known or "." not in domain:
            return known or "unknown"
        for suffix, level in self._suffixes:
            if host.endswith(suffix):
                return level
        tail = host.rsplit(".", 1)[-1]
        for inner, level in self._inner:
            if len(tail) == 2 and host.endswith(f"{inner}{tail}"):
                return level
        return "unknown"

    def lists(self, host: str) -> bool:
        """Whether the table names this domain itself."""
        return host in self._exact or registrable_domain(host) in self._exact
