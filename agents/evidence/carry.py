"""The word rules alone: does a page carry the claim? For offline use, and where no critic answered.

The default is ``unrelated``. A page carries the claim when one sentence, or it and the one before, names the subject and
says the claim's verb or a listed synonym, un-negated, while no other listed entity and no other ticker stands there. A
hedge, or a plan where the claim is a fact, makes it ``hedges``. Denials are read by the grammar of ``stance``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from agents.evidence.amounts import Amounts
from agents.evidence.claim import Claim
from agents.evidence.compiled import Compiled
from agents.evidence.entities import tickers_in
from agents.evidence.pages import Judge
from agents.text.matching import fold_han
from schemas.evidence import ReadStance, SearchReference

_SENTENCES = re.compile(r"(?<=[。!?!?;])|(?<=[.])\s|\n")
_SPEAKS_OF_OTHERS = frozenset({"media", "data", "regulator", "central_bank", "court", "government"})
"""Kinds whose name in a sentence does not make it about another event: those that report, and those that are told."""


class CarryRules:
    """Reads references against one claim."""

    def __init__(self, claim: Claim, tables: Compiled) -> None:
        self._judge = Judge(claim, tables)
        self._tables, self._claim = tables, claim
        self._claimed = Amounts(fold_han(claim.text).lower()).given
        venues = [e for e in tables.entities.parties(claim) if e.kind == "exchange"]
        self._venues = {e.name for e in venues} if claim.event_type == "listing" else set()
        self._parties = {e.name for e in tables.entities.parties(claim)}

    def stance(self, reference: SearchReference) -> ReadStance:
        """Return what the words of title and passage carry."""
        if reference.stance == "denies":
            return "denies"
        judge, sense = self._judge, self._judge.sense
        if sense.denial:
            # News that denies is carried by a page that the grammar reads as the same denial.
            names = judge.names_subject(fold_han(f"{reference.title} {reference.passage}"))
            return "supports" if reference.stance == "supports" and names else "unrelated"
        if (marked := tickers_in(f"{reference.title} {reference.passage}")) and self._is_of_other_ticker(marked):
            return "unrelated"
        hedged = False
        sentences = self._sentences(reference)
        for before, sentence in zip(["", *sentences], sentences, strict=False):
            if not self._tables.grammar.says(sense, sentence.lower()):
                continue
            told = sentence if self._names(sentence, reference) else f"{before} {sentence}"
            if not self._names(told, reference) or self._is_of_another(told):
                continue
            if self._claimed and (figures := Amounts(told.lower()).given) and not _near(figures, self._claimed):
                hedged = True
                continue
            match self._tables.grammar.assertion(sense, sentence.lower()):
                case "stated":
                    return "supports"
                case "hedged":
                    hedged = True
        return "hedges" if hedged else "unrelated"

    def _sentences(self, reference: SearchReference) -> Sequence[str]:
        parts = [reference.title, *_SENTENCES.split(reference.passage or reference.snippet)]
        return [fold_han(p) for p in parts if p and p.strip()]

    def _names(self, told: str, reference: SearchReference) -> bool:
        # On its own page a party need not name itself, but what else the claim is about.
        heard = f"{told} | {reference.speaker or ''}"
        if self._venues and self._venues.isdisjoint(e.name for e in self._tables.entities.mentioned(heard)):
            return False
        return self._judge.names_subject(heard)

    def _is_of_another(self, told: str) -> bool:
        asset = self._claim.asset.upper()
        if any(t != asset and t not in self._claim.text for t in tickers_in(told)):
            return True
        others = (e for e in self._tables.entities.mentioned(told) if e.name not in self._parties)
        return any(e.kind not in _SPEAKS_OF_OTHERS for e in others)

    def _is_of_other_ticker(self, marked: frozenset[str]) -> bool:
        known = self._claim.asset.upper()
        return known != "UNKNOWN" and known not in marked and not any(t in self._claim.text.split() for t in marked)


def _near(one: frozenset[float], other: frozenset[float]) -> bool:
    """Whether any two amounts differ by at most a tenth."""
    return any(abs(a - b) <= 0.1 * max(a, b) for a in one for b in other)
