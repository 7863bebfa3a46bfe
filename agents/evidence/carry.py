"""The word rules alone: does a page carry the claim? For offline use, and where no critic answered.

The default is ``unrelated``. A page carries the claim when one sentence, or it and the one before, names the subject and
says the claim's verb or a listed synonym, un-negated, while no other listed entity and no other ticker stands there. A
hedge, or a plan where the claim is a fact, makes it ``hedges``. Denials are read by the grammar of ``stance``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from agents.evidence.amounts import Amounts, share
from agents.evidence.claim import Claim
from agents.evidence.compiled import Compiled
from agents.evidence.entities import tickers_in
from agents.evidence.pages import Judge
from agents.evidence.stance import Told
from agents.text.matching import fold_han
from schemas.evidence import ReadStance, SearchReference

_SENTENCES = re.compile(r"(?<=[。!?!?;])|(?<=[.])\s|\n")
DIFFERS = 0.1
"""Relative difference from which an amount is another one."""
_SPEAKS_OF_OTHERS = frozenset({"media", "data", "regulator", "central_bank", "court", "government"})
"""Kinds whose name in a sentence does not make it about another event: those that report, and those that are told."""


class CarryRules:
    """Reads references against one claim."""

    def __init__(self, claim: Claim, tables: Compiled) -> None:
        self._judge = Judge(claim, tables)
        self._tables, self._claim = tables, claim
        self._claimed = Amounts(fold_han(claim.text).lower()).given
        parties = tables.entities.parties(claim)
        self._parties = {e.name for e in parties}
        self._venues = {e.name for e in parties if e.kind == "exchange" and claim.event_type == "listing"}

    def stance(self, reference: SearchReference) -> ReadStance:
        """Return what the words of title and passage carry."""
        judge, sense = self._judge, self._judge.sense
        if sense.denial:
            # News that denies is carried by a page that the grammar reads as the same denial.
            names = judge.names_subject(fold_han(f"{reference.title} {reference.passage}"))
            carried: ReadStance = "supports" if reference.stance == "supports" and names else "unrelated"
            return "denies" if reference.stance == "denies" else carried
        found = self._told(reference)
        # “Rumours that withdrawals have been halted are false”, on a page that states the hack: which of the two it denies
        # takes a reader.
        if reference.stance == "denies":
            return "hedges" if "stated" in found and "negated" not in found else "denies"
        if self._is_of_other_ticker(tickers_in(f"{reference.title} {reference.passage}")):
            return "unrelated"
        return "supports" if "stated" in found else "hedges" if "hedged" in found else "unrelated"

    def _told(self, reference: SearchReference) -> list[Told]:
        """Return how each sentence that says the claim's verb of the claim's subject puts it, in order."""
        grammar, sense, found = self._tables.grammar, self._judge.sense, []
        sentences = self._sentences(reference)
        for before, sentence in zip(["", *sentences], sentences, strict=False):
            if not grammar.says(sense, sentence.lower()):
                continue
            told = sentence if self._names(sentence, reference) else f"{before} {sentence}"
            if not self._names(told, reference) or self._is_of_another(told):
                continue
            figures = Amounts(told.lower()).given
            other = bool(self._claimed and figures) and not share(figures, self._claimed, within=DIFFERS)
            found.append("hedged" if other else grammar.assertion(sense, sentence.lower()))
        return found

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
        return (
            bool(marked)
            and known != "UNKNOWN"
            and known not in marked
            and not any(t in self._claim.text.split() for t in marked)
        )
