"""The statement of one news text: its parties, predicates, amounts, and its denials or corrections."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple
from weakref import WeakKeyDictionary

from agents.evidence.compiled import Compiled
from agents.evidence.news_claim import ParsedText
from agents.text.amounts import Amounts
from agents.text.grammar import ClaimSense
from agents.text.matching import fold_han, has_cjk, words_regex
from agents.text.scope import stem
from schemas.config import Entity

_CLAUSES = re.compile(r"[;。!!??]|[,,::](?!\d)|\.\s|\.$|\s[-–—]\s|\s(?:but|while|although|whereas)\s")
_BACKGROUND = re.compile(
    r"\s(?:after|following|despite|amid)\s|\sand\s(?=(?:\w+\s){0,2}(?:den(?:y|ies|ied)|rejects?|dismiss|refutes?|rebuts?)\b)"
    r"|[并但](?=否认|辟谣|澄清|驳斥|未|没有)"
)
"""Boundaries of the object of a denial: “denies insolvency after halting withdrawals” denies no halt."""
_OBJECT = re.compile(
    r"\bden(?:y|ies|ied|ying)\s(?!.{0,20}\b(?:rumou?rs?|reports?|claims?|allegations?|speculation|stor(?:y|ies)|posts?|news|it|this)\b)"
    r".*[a-z]{3}.*|否认(?!.*(?:消息|传闻|传言|报道|说法|一事|此事|该)).{3,}"
)
"""The object that a denial names directly. A report of it may be in another clause."""
_SAID = re.compile(
    r"辟谣|否认|澄清|驳斥|不实|不属实|虚假|伪造|冒用|假的|假消息|谣言|传闻|传言|网传|消息|声明|公告|官方|账号|账户|公司|主席|发言人|"
    r"创始人|首席执行官|与|和|的|系|为|是|没有|没|未|从未|并未|并|不|无|任何|一事|相关|遭|被|入侵"
)
_PLAIN_WORDS = """
fake false untrue fraudulent bogus fabricated forged not hoax wrong still plan plans retailer company firm exchange
issuer giant platform protocol team spokesperson spokesman chair chairman ceo founder account post posts tweet message
official staff under review application pending says said told deny denies denied denial relationship compromised
unauthorized circulating online breaking sources today any such correction never happened existing monday tuesday
wednesday thursday friday saturday sunday calls call called billion million trillion via media reports report claims
claim rumor rumours rumors agency commission regulator own page site website clarifies clarify clarified announces
announced announcement announce major press release year his her its their
"""
"""Words that do not identify the subject of a claim: speakers, places, times, and words for true or false."""
_PLAIN = frozenset(stem(word) for word in re.findall(r"\w+", _PLAIN_WORDS))


_BYSTANDERS = frozenset({"court", "network"})


class DeniedPart(NamedTuple):
    """One denied matter: its predicates and amounts, whether an account did it, the words and terms of its object.

    ``beside``: it is a circumstance of an event, such as who did it or its delay. Then the event itself is admitted.
    """

    predicates: frozenset[str]
    amounts: frozenset[float]
    account: bool
    words: frozenset[str]
    concepts: frozenset[str]
    beside: bool


def is_beside(sense: ClaimSense) -> bool:
    """Return whether a text is about a circumstance of an event: who did it, who knew, its delay."""
    return sense.beside or sense.postpones


def clauses_of(text: str) -> list[str]:
    """Return the clauses of a text (folded, in lower case). The background of a denial is a clause of its own."""
    return [c for part in _CLAUSES.split(text) for c in _BACKGROUND.split(part) if c.strip()]


class Statement(ParsedText):
    """The parsed statement of one text. ``parts``: its denied matters; one part without predicates if it denies nothing."""

    def __init__(self, tables: Compiled, text: str, *, entity: str | None, asset: str) -> None:
        super().__init__(tables, text)
        self.cjk = has_cjk(self.text)
        self.asset, self.entity = asset.upper(), fold_han(entity or "").lower()
        self.entities = _by_name(tables, self.text, entity)
        self.own = frozenset(n for n, e in self.entities.items() if self.asset in e.assets)
        named = tables.entities.named(entity) if entity else ()
        self.primary = named[0].name if named else None
        self._names = _names_pattern(_all_names(self.entities, tables, self.asset))
        whole = self.sense
        self.predicates = frozenset(_spoken(tables, (*whole.groups, *whole.negated), self.low))
        self.account = whole.account_hack
        parts = self._denied_parts(tables) if self.denial or self.refutes_denial else []
        self.parts = tuple(self._part(tables, *part) for part in _compound(parts) or [(self.low, (), False)])
        self.concepts = frozenset[str]().union(*(part.concepts for part in self.parts))
        words = self._words(tables, " ; ".join(part[0] for part in parts) if parts else self.low)
        self.told = words | frozenset(tables.grammar.sense(self._names.sub(" ; ", self.low)).target)

    @property
    def parties(self) -> frozenset[str]:
        """The named parties, except the asset's own project (which every claim about it shares) and bystanders.

        Bystanders: chains that carry the asset, and courts, unless the news is about them (“Chapter 11” names a court).
        """
        aside = {n for n, e in self.entities.items() if e.kind in _BYSTANDERS and n != self.primary}
        return frozenset(self.entities) - self.own - aside

    def _denied_parts(self, tables: Compiled) -> list[tuple[str, tuple[str, ...], bool]]:
        parts = []
        for clause in clauses_of(self.low):
            sense = tables.grammar.sense(clause)
            if sense.denial:
                parts.append((clause, sense.negated or _spoken(tables, sense.groups, clause), sense.account_hack))
        if not any(groups for _, groups, _ in parts):
            # “The report that …, spread on Tuesday, is false”: the denied matter is in another clause.
            sense = tables.grammar.sense(self.low)
            meant = sense.negated or _spoken(tables, sense.groups, self.low)
            groups = tuple(g for g in meant if not (g == "hack" and sense.account_hack))
            named = [] if self.refutes_denial else [part for part in parts if _OBJECT.search(part[0])]
            parts = named if groups and named else [(self.low, groups, False)]
        return parts

    def _part(self, tables: Compiled, about: str, groups: tuple[str, ...], account: bool) -> DeniedPart:
        denied = self.denial or self.refutes_denial
        return DeniedPart(
            predicates=frozenset(groups),
            amounts=Amounts(about).given if denied else frozenset(),
            account=account,
            words=self._words(tables, about),
            concepts=_concepts(tables, about),
            beside=denied and is_beside(tables.grammar.sense(about)),
        )

    def _words(self, tables: Compiled, text: str) -> frozenset[str]:
        bare = self._names.sub(" ; ", text)
        topic = tables.grammar.sense(_SAID.sub(" ; ", bare)).topic
        return frozenset(w for w in topic if w not in _PLAIN and not w[:1].isdigit())


_Denied = tuple[str, tuple[str, ...], bool]


def _compound(parts: list[_Denied]) -> list[_Denied]:
    """Return the denied clauses, joined unless each has predicates of its own: only then are they several denials."""
    known = [set(groups) for _, groups, _ in parts]
    apart = all(known) and all(not a & b for n, a in enumerate(known) for b in known[:n])
    if apart or not parts:
        return parts
    text = " ; ".join(clause for clause, _, _ in parts)
    return [(text, tuple(dict.fromkeys(g for _, gs, _ in parts for g in gs)), any(account for *_, account in parts))]


def speaks_of(tables: Compiled, groups: Iterable[str], text: str) -> bool:
    """Return whether a text (folded, in lower case) uses a verb of one of the groups."""
    return bool(_spoken(tables, groups, text))


def _spoken(tables: Compiled, groups: Iterable[str], text: str) -> tuple[str, ...]:
    # Evidence treats a purchase as the other side's sale; for a single party, “has not sold” denies no purchase.
    spoken = []
    for group in groups:
        sense = ClaimSense()
        sense.groups = (group,)
        if tables.grammar.speaks_of(sense, text):
            spoken.append(group)
    return tuple(spoken)


def _by_name(tables: Compiled, text: str, entity: str | None) -> dict[str, Entity]:
    entities = [*(tables.entities.named(entity) if entity else ()), *tables.entities.mentioned(text)]
    return {e.name: e for e in entities}


def _all_names(entities: dict[str, Entity], tables: Compiled, asset: str) -> frozenset[str]:
    names = [n for e in entities.values() for n in (e.name, *e.aliases)]
    return frozenset([*names, asset, *tables.asset_names.get(asset, ())])


@lru_cache(maxsize=512)
def _names_pattern(names: frozenset[str]) -> re.Pattern[str]:
    return words_regex(sorted(names))


_Terms = tuple[tuple[str, re.Pattern[str]], ...]
_terms: WeakKeyDictionary[Compiled, _Terms] = WeakKeyDictionary()


def _concepts(tables: Compiled, text: str) -> frozenset[str]:
    if (known := _terms.get(tables)) is None:
        # “ETFs” and “listings” match the table's “ETF” and “listing”.
        known = tuple(
            (name, words_regex(t if has_cjk(t) else f"{t}*" for t in terms))
            for name, terms in tables.event_terms.items()
        )
        _terms[tables] = known
    return frozenset(name for name, pattern in known if pattern.search(text))
