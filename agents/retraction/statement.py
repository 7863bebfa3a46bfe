"""Parses one news text as a statement: its parties, predicates, amounts, and what it denies or corrects."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from weakref import WeakKeyDictionary

from agents.evidence.amounts import Amounts
from agents.evidence.compiled import Compiled
from agents.evidence.denial import Telling
from agents.evidence.scope import stem
from agents.evidence.stance import ClaimSense
from agents.text.matching import fold_han, has_cjk, words_regex
from schemas.config import Entity

_CLAUSES = re.compile(r"[;。!!??]|[,,::](?!\d)|\.\s|\.$|\s[-–—]\s|\s(?:but|while|although|whereas)\s")
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


class Statement(Telling):
    """The parsed statement of one text. ``denied`` holds the predicates that it says did not happen."""

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
        self.denied = frozenset(p for part in parts for p in part[1])
        about = " ; ".join(part[0] for part in parts) if parts else self.low
        self.denied_amounts = Amounts(about).given if parts else frozenset[float]()
        self.denies_account = any(part[2] for part in parts)
        self.words, self.concepts = self._words(tables, about), _concepts(tables, about)
        self.told = self.words | frozenset(tables.grammar.sense(self._names.sub(" ; ", self.low)).target)

    @property
    def parties(self) -> frozenset[str]:
        """All parties named, except the asset's own project, which every claim about it shares, and bystanders.

        Bystanders: chains that carry the asset, and courts, unless the news is about them (“Chapter 11” names a court).
        """
        aside = {n for n, e in self.entities.items() if e.kind in _BYSTANDERS and n != self.primary}
        return frozenset(self.entities) - self.own - aside

    def _denied_parts(self, tables: Compiled) -> list[tuple[str, tuple[str, ...], bool]]:
        found = []
        for clause in filter(str.strip, _CLAUSES.split(self.low)):
            sense = tables.grammar.sense(clause)
            if sense.denial:
                found.append((clause, sense.negated or _spoken(tables, sense.groups, clause), sense.account_hack))
        if not any(groups for _, groups, _ in found):
            # “The report that …, spread on Tuesday, is false”: the denied matter is in another clause.
            sense = tables.grammar.sense(self.low)
            meant = sense.negated or _spoken(tables, sense.groups, self.low)
            groups = tuple(g for g in meant if not (g == "hack" and sense.account_hack))
            found = [(self.low, groups, False)]
        return found

    def _words(self, tables: Compiled, text: str) -> frozenset[str]:
        bare = self._names.sub(" ; ", text)
        topic = tables.grammar.sense(_SAID.sub(" ; ", bare)).topic
        return frozenset(w for w in topic if w not in _PLAIN and not w[:1].isdigit())


def _spoken(tables: Compiled, groups: Iterable[str], text: str) -> tuple[str, ...]:
    # Evidence treats a purchase as the other side's sale; for a single party, “has not sold” denies no purchase.
    found = []
    for group in groups:
        one = ClaimSense()
        one.groups = (group,)
        if tables.grammar.speaks_of(one, text):
            found.append(group)
    return tuple(found)


def _by_name(tables: Compiled, text: str, entity: str | None) -> dict[str, Entity]:
    found = [*(tables.entities.named(entity) if entity else ()), *tables.entities.mentioned(text)]
    return {e.name: e for e in found}


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
