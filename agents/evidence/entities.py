"""The index of entities: those that a text names, and those whose statements on a claim are official."""

from __future__ import annotations

import re

from agents.evidence.claim import Claim
from agents.text.matching import CJK, fold_han, words_pattern
from schemas.config import Entity, Tables

_HAN = re.compile(r"[\u4e00-\u9fff]")
_STARTS = re.compile(rf"[^\W_{CJK}]+|[{CJK}]")
"""Possible start of a name: a Latin word, or any CJK character."""
AUTHORITIES = frozenset({"regulator", "central_bank", "court", "government"})
_AUTHORITY_EVENTS = frozenset(
    {"regulation", "hack", "liquidation", "depeg", "scam_alert", "other", "macro", "governance", "celebrity"}
)
_JUDGED_EVENTS = frozenset({"regulation", "listing", "liquidation", "partnership"})
_CHAIN_EVENTS = frozenset({"product", "governance", "airdrop", "funding", "hack", "other"})


class EntityIndex:
    """The compiled table of official sources: names → entities, domains → entities, authorities → their cue words."""

    def __init__(self, tables: Tables) -> None:
        self._by_name: dict[str, list[Entity]] = {}
        self.by_domain: dict[str, list[Entity]] = {}
        self._by_asset: dict[str, list[Entity]] = {}
        self._order = {id(e): n for n, e in enumerate(tables.entities)}
        for entity in tables.entities:
            for name in {entity.name, *entity.aliases}:
                if len(name) > 1:
                    self._by_name.setdefault(fold_han(name).lower(), []).append(entity)
            for domain in entity.domains:
                self.by_domain.setdefault(domain.lower(), []).append(entity)
            for asset in entity.assets:
                self._by_asset.setdefault(asset.upper(), []).append(entity)
        self._ambiguous = frozenset(tables.lexicon.get("ambiguous_names", ()))
        self._by_start: dict[str, list[str]] = {}
        for name in sorted(self._by_name, key=lambda n: (-len(n), n)):
            start = _STARTS.match(name)
            if start is not None:
                self._by_start.setdefault(start.group(), []).append(name)
        lexicon = tables.lexicon
        self._jurisdictions = {
            k.split("/", 1)[1]: re.compile(words_pattern(v))
            for k, v in lexicon.items()
            if k.startswith("jurisdiction/")
        }
        self._cues = {
            k.split("/", 1)[1]: (tuple(w for w in v if w in self._jurisdictions),
                                 re.compile(words_pattern(w for w in v if w not in self._jurisdictions), re.I))
            for k, v in lexicon.items() if k.startswith("authority/")
        }  # fmt: skip
        self._filing = re.compile(words_pattern(lexicon.get("filing_words", ())))

    def mentioned(self, text: str) -> tuple[Entity, ...]:
        """Return the entities that a text names, in order. The longest name wins where names overlap."""
        entities: dict[int, Entity] = {}
        written = fold_han(text)
        low = written.lower()
        end = 0
        for match in _STARTS.finditer(low):
            at = match.start()
            if at < end:
                continue
            for name in self._by_start.get(match.group(), ()):
                if low.startswith(name, at) and self._is_whole(written, at, name):
                    end = at + len(name)
                    for entity in self._by_name[name]:
                        entities.setdefault(id(entity), entity)
                    break
        return tuple(entities.values())

    def _is_whole(self, written: str, at: int, name: str) -> bool:
        if not name[-1].isascii():
            return True
        after = written[at + len(name) : at + len(name) + 1]
        if after.isascii() and after.isalnum():
            return False
        # “it took thirty sec”, “full circle”: such names are ordinary words unless they are capitalised.
        spelled = written[at : at + len(name)]
        return not spelled.islower() or (name not in self._ambiguous and len(name) > 3)

    def named(self, name: str) -> tuple[Entity, ...]:
        """Return the entities with this name, ignoring case; otherwise those whose whole name it contains."""
        return self.exactly(name) or self.mentioned(name)

    def exactly(self, name: str) -> tuple[Entity, ...]:
        """Return the entities with this name, ignoring case."""
        return tuple(self._by_name.get(fold_han(name).lower(), ()))

    def parties(self, claim: Claim) -> tuple[Entity, ...]:
        """Return all entities of the claim: ``entity``, ``subject``, ``venue``, those that its text names, the asset's issuer."""
        entities = [e for name in (claim.entity, claim.subject, claim.venue) if name for e in self.named(name)]
        entities += self.mentioned(f"{claim.text} | {claim.asset_name}")
        entities += self._by_asset.get(claim.asset.upper(), [])
        return tuple({id(e): e for e in entities}.values())

    def speaking(self, claim: Claim) -> tuple[Entity, ...]:
        """Return the entities whose own statements on this claim are official."""
        text = fold_han(claim.text)
        own = {id(e) for e in self.named(claim.entity)} if claim.entity else set()
        allowed = [e for e in self.parties(claim) if id(e) in own or self._may_speak(e, claim.event_type, text)]
        if claim.event_type == "regulation" or (claim.event_type in _JUDGED_EVENTS and self._filing.search(text)):
            named = any(e.kind in AUTHORITIES for e in self.parties(claim))
            by_place = claim.event_type == "regulation" and not named
            allowed += [
                e for name in self._competent(text, by_place=by_place) for e in self._by_name.get(name.lower(), [])
            ]
        return tuple(allowed)

    def _may_speak(self, entity: Entity, event_type: str, text: str) -> bool:
        if entity.kind in AUTHORITIES:
            # A regulator that is merely mentioned is no authority on a coin's listing or a product.
            return event_type in _AUTHORITY_EVENTS or (
                event_type in _JUDGED_EVENTS and self._filing.search(text) is not None
            )
        if entity.kind == "network":
            return event_type in _CHAIN_EVENTS
        return entity.kind not in {"media", "data"} or event_type in {"liquidation", "whale", "other"}

    def _competent(self, text: str, *, by_place: bool) -> list[str]:
        places = {place for place, words in self._jurisdictions.items() if words.search(text)}
        if places and by_place:
            # “Dubai's regulator fines …” names the authority by its place alone.
            return [n for n, (of, _) in self._cues.items() if places & set(of)]
        # Without a named place, these matters are American in this field: ETF forms, guilty pleas, Chapter 11.
        places = places or {"US"}
        return [n for n, (of, cues) in self._cues.items() if places & set(of) and cues.search(text)]


_PROPER = re.compile(r"(?<![A-Za-z0-9])[A-Z][A-Za-z0-9]*(?:\.[A-Za-z]{2,4})?(?![A-Za-z0-9])")
_TICKER_IN_TEXT = re.compile(r"[$(]([A-Z][A-Z0-9]{1,9})\b")


def names_in(text: str, stopwords: frozenset[str]) -> frozenset[str]:
    """Return the proper names of a text in lower case: capitalised words that are not ordinary words."""
    return frozenset(w.lower() for w in _PROPER.findall(fold_han(text)) if w.lower() not in stopwords and len(w) > 1)


def tickers_in(text: str) -> frozenset[str]:
    """Return the tickers that a text marks as such: ``$ABC`` or ``(ABC)``."""
    if text.isascii() and "$" not in text and "(" not in text:
        return frozenset()
    return frozenset(_TICKER_IN_TEXT.findall(fold_han(text)))


def chinese_name(entity: Entity) -> str | None:
    """Return the entity's first name in Chinese characters alone, or None."""
    return next((a for a in entity.aliases if a and not _HAN.sub("", a)), None)
