"""The word rules: a page's stance on the claim, for offline use and if no critic replied.

The default is ``unrelated``. A page supports the claim if one sentence (or it and the one before) names the subject and
uses the claim's verb or a listed synonym without negation, and no other listed entity or ticker appears there. A hedge, or
a plan where the claim is a fact, makes the stance ``hedges``. :mod:`agents.text.grammar` recognises denials.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from agents.evidence.claim import Claim
from agents.evidence.compiled import Compiled
from agents.evidence.entities import tickers_in
from agents.text.amounts import Amounts
from agents.text.grammar import Assertion, ClaimSense
from agents.text.matching import fold_han
from schemas.evidence import Stance
from schemas.signals import NO_ASSET

_SENTENCES = re.compile(r"(?<=[。!?!?;])|(?<=[.])\s|\n")
DIFFERS = 0.1
"""Difference from the claimed amount, as a share of it, above which an amount differs."""
_SPEAKS_OF_OTHERS = frozenset({"media", "data", "regulator", "central_bank", "court", "government"})
"""Kinds of entities that a sentence may name without being about another event: media, data providers, authorities."""


class WordRules:
    """The word rules for one claim. ``names_subject`` returns whether a folded text names the subject of the claim."""

    def __init__(self, claim: Claim, tables: Compiled, sense: ClaimSense, names_subject: Callable[[str], bool]) -> None:
        self._sense, self._names_subject = sense, names_subject
        self._tables, self._claim = tables, claim
        self._sentences: dict[str, tuple[str, str | None]] = {}
        self._known: dict[tuple[str, str, str], Assertion | None] = {}
        self._claimed = Amounts(fold_han(claim.text).lower()).given
        self._names_somebody = names_subject(fold_han(claim.text))
        parties = tables.entities.parties(claim)
        self._parties = {e.name for e in parties}
        self._venues = {e.name for e in parties if e.kind == "exchange" and claim.event_type == "listing"}

    def stance(self, title: str, passage: str, *, speaker: str | None, denies: bool) -> Stance:
        """Return the stance of title and passage. ``denies``: the grammar found a denial on the whole page."""
        if self._sense.denial:
            # News that denies is supported by a page that denies the same.
            return "supports" if denies and self._names_subject(fold_han(f"{title} {passage}")) else "unrelated"
        assertions = self._assertions(title, passage, speaker or "")
        # “Rumours that withdrawals have been halted are false” on a page that states the hack: only a reader can say which
        # of the two it denies.
        if denies and not self._speaks_of_claim(f"{title} {passage}"):
            return "unrelated"
        if denies:
            return "hedges" if "stated" in assertions and "negated" not in assertions else "denies"
        if self._is_of_other_ticker(tickers_in(f"{title} {passage}")):
            return "unrelated"
        return "supports" if "stated" in assertions else "hedges" if "hedged" in assertions else "unrelated"

    def _speaks_of_claim(self, text: str) -> bool:
        """Return whether a text names the subject and mentions the act or the object. Otherwise words alone cannot deny the claim."""
        folded = fold_han(text)
        if self._names_somebody and not self._names_subject(folded):
            return False
        grammar, low = self._tables.grammar, folded.lower()
        terms = self._tables.event_terms.get(self._claim.event_type, ())
        return (
            grammar.speaks_of_act(self._sense, low)
            or grammar.shares_topic(self._sense, low)
            or any(t.lower() in low for t in terms)
        )

    def _assertions(self, title: str, passage: str, speaker: str) -> list[Assertion]:
        """Return the assertion of each sentence about the claim's subject and verb, in order."""
        assertions = list[Assertion]()
        before = ""
        for part in (title, *_SENTENCES.split(passage)):
            if not part or not part.strip():
                continue
            sentence, low = self._sentence(part)
            if low is not None:
                key = before, sentence, speaker
                if key not in self._known:
                    self._known[key] = self._assertion_of(before, sentence, low, speaker)
                if (assertion := self._known[key]) is not None:
                    assertions.append(assertion)
            before = sentence
        return assertions

    def _sentence(self, part: str) -> tuple[str, str | None]:
        """Return the folded sentence and, if it uses the claim's verb, its lower case. Cached: sentences recur when pages are opened."""
        if (known := self._sentences.get(part)) is None:
            sentence = fold_han(part)
            low = sentence.lower()
            known = self._sentences[part] = sentence, low if self._tables.grammar.says(self._sense, low) else None
        return known

    def _assertion_of(self, before: str, sentence: str, low: str, speaker: str) -> Assertion | None:
        text = sentence if self._names(sentence, speaker) else f"{before} {sentence}"
        if (text is not sentence and not self._names(text, speaker)) or self._is_of_another(text):
            return None
        figures = Amounts(text.lower()).given
        other = bool(self._claimed and figures) and not any(_agree(f, c) for f in figures for c in self._claimed)
        # A party that says on its own page that it will list something announces the listing.
        announced = bool(speaker) and self._claim.event_type == "listing"
        return "hedged" if other else self._tables.grammar.assertion(self._sense, low, announced=announced)

    def _names(self, sentence: str, speaker: str) -> bool:
        # On its own page a party need not name itself, only the rest of the subject.
        text = f"{sentence} | {speaker}"
        if self._venues and self._venues.isdisjoint(e.name for e in self._tables.entities.mentioned(text)):
            return False
        return self._names_subject(text)

    def _is_of_another(self, sentence: str) -> bool:
        asset = self._claim.asset.upper()
        if any(t != asset and t not in self._claim.text for t in tickers_in(sentence)):
            return True
        others = (e for e in self._tables.entities.mentioned(sentence) if e.name not in self._parties)
        return any(e.kind not in _SPEAKS_OF_OTHERS for e in others)

    def _is_of_other_ticker(self, marked: frozenset[str]) -> bool:
        known = self._claim.asset.upper()
        return (
            bool(marked)
            and known != NO_ASSET
            and known not in marked
            and not any(t in self._claim.text.split() for t in marked)
        )


def _agree(figure: float, claimed: float) -> bool:
    return abs(figure - claimed) <= DIFFERS * claimed
