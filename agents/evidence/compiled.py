"""The tables of a snapshot, compiled once per content: lookups, patterns, and the credibility of publishers."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping

from agents.evidence.entities import EntityIndex
from agents.tables.directory import Directory
from agents.text.grammar import Grammar
from agents.text.hosts import Imitations, host_of, path_of, registrable_domain
from agents.text.matching import fold_han, words_regex
from schemas.config import Entity, Tables
from schemas.evidence import Credibility
from schemas.ids import content_hash


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
        """Return the credibility of a host. Reserved names (``.example``) match no pattern, so they stay unknown."""
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
        """Return whether the table names this domain itself."""
        return host in self._exact or registrable_domain(host) in self._exact


_TICKER = re.compile(r"(?!(?:UNKNOWN|NONE|NULL|N.A)$)[A-Z0-9][A-Z0-9.-]{1,19}")
_KEPT = 8
"""Size of the cache. A worker meets new tables only at a hot configuration change, a backtest a handful."""


class Compiled:
    """All compiled lookups that the evaluation needs from one set of tables."""

    def __init__(self, tables: Tables) -> None:
        lexicon = tables.lexicon
        self.entities = EntityIndex(tables)
        self.directory = Directory(tables)
        self.spoof_affixes = frozenset(lexicon.get("spoof_affixes", ()))
        self.imitations = Imitations(self.entities.by_domain, self.spoof_affixes)
        self.credibility = CredibilityTable(tables.credibility)
        self.grammar = Grammar(lexicon)
        self.name_stopwords = frozenset(lexicon.get("name_stopwords", ()))
        self.ambiguous_names = frozenset(lexicon.get("ambiguous_names", ()))
        self.claimant_affixes = frozenset(lexicon.get("claimant_affixes", ()))
        self.claimant_platforms = frozenset(lexicon.get("claimant_platforms", ()))
        hosts = lexicon.get("user_content_hosts", ())
        self._user_hosts = frozenset(h for h in hosts if not h.endswith("."))
        self._user_labels = frozenset(h[:-1] for h in hosts if h.endswith("."))
        self._user_paths = frozenset(lexicon.get("user_content_paths", ()))
        self.official_words = tuple(w.casefold() for w in lexicon.get("official", ()))
        self.moods = tuple(tuple(w.casefold() for w in lexicon.get(m, ())) for m in ("panic", "neutral", "optimistic"))
        # Snapshots of recorded cases may hold the names in the lexicon.
        self.asset_names = {k.split("/", 1)[1]: v for k, v in lexicon.items() if k.startswith("asset/")}
        self.asset_names |= {a.ticker: a.names for a in tables.assets}
        named = [(n, t) for t, names in self.asset_names.items() for n in (t, *names)]
        self._tickers = {fold_han(n).lower(): t for n, t in reversed(named)}
        self.event_terms = tables.event_terms
        self.common_words = frozenset(lexicon.get("common_words", ()))
        self.filler = words_regex(lexicon.get("filler", ()))
        self.places = frozenset(
            word.lower()
            for key, names in lexicon.items()
            if key.startswith("jurisdiction/")
            for name in names
            for word in name.split()
        )
        self.not_turns = words_regex(lexicon.get("not_turns", ()))
        self.turns = {k.split("/", 1)[1]: words_regex(v) for k, v in lexicon.items() if k.startswith("turn/")}

    def ticker_of(self, name: str) -> str:
        """Return the ticker of a coin, given its ticker or a name. A word that looks like a ticker is returned as is; else ""."""
        plain = fold_han(name).strip().lstrip("$")
        return self._tickers.get(plain.lower()) or (plain if _TICKER.fullmatch(plain) else "")

    def is_user_content(self, url: str) -> bool:
        """Return whether anybody can publish at this address, even on an official domain."""
        if self.directory.outlet_of_account(url) is not None:
            return False
        host = host_of(url)
        labels = host.split(".")
        if labels[0] in self._user_labels or any(".".join(labels[n:]) in self._user_hosts for n in range(len(labels))):
            return True
        first = [p for p in path_of(url).split("/") if p][:3]
        return any(p in self._user_paths for p in first)


_by_identity: OrderedDict[int, tuple[Tables, Compiled]] = OrderedDict()
_by_content: OrderedDict[str, Compiled] = OrderedDict()


def compiled(tables: Tables) -> Compiled:
    """Return the compiled tables. Equal tables give the same object.

    The cache keeps a reference to the tables, so that the ``id`` of a cached one is never reused.
    """
    known = _by_identity.get(id(tables))
    if known is not None:
        return known[1]
    key = content_hash(tables)
    made = _by_content.get(key) or Compiled(tables)
    _by_content[key] = made
    _by_identity[id(tables)] = (tables, made)
    while len(_by_identity) > _KEPT:
        _by_identity.popitem(last=False)
    while len(_by_content) > _KEPT:
        _by_content.popitem(last=False)
    return made


def entities_in(text: str, tables: Tables) -> tuple[Entity, ...]:
    """Return the entities that a text names (zh and en aliases, whole words, longest first), in the text's order."""
    return compiled(tables).entities.mentioned(text)
