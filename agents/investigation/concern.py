"""Whether a news item concerns the subject of a watch. Rules alone: each match costs an investigation."""

from __future__ import annotations

import re
from itertools import pairwise

from agents.evidence.compiled import compiled
from agents.investigation.subject import subject_of
from agents.text.matching import fold_han, has_cjk, units, words_regex
from schemas.config import Tables
from schemas.signals import Draft

_LEAST_LETTERS = 2
_PAIRS_SHARE = 2 / 3
"""Share of a Chinese subject's neighbouring characters that a text must hold: 稳定币监管 is also 对稳定币的监管."""


class Concern:
    """The subject of a watch, made ready for many news items."""

    def __init__(self, subject: str, tables: Tables) -> None:
        self._known = compiled(tables)
        text = subject_of(subject)
        self._entities = {e.name for e in self._known.entities.mentioned(text)}
        self._assets = {a.ticker for a in self._known.directory.assets_in(text)}
        self._by_words = not (self._entities or self._assets)
        self._words, self._pairs = self._words_of(fold_han(text))

    def is_met(self, text: str, draft: Draft) -> bool:
        """Whether the news name an entity or an asset that the subject names, or triage found one of them.

        For a subject that names none of the tables: whether the text holds all of its words.
        """
        if self._by_words:
            folded = fold_han(text)
            held = sum(pair in folded for pair in self._pairs)
            return all(word.search(folded) for word in self._words) and held >= _PAIRS_SHARE * len(self._pairs)
        if draft.asset in self._assets:
            return True
        named = f"{text} | {draft.entity or ''}"
        if any(e.name in self._entities for e in self._known.entities.mentioned(named)):
            return True
        return bool(self._assets) and any(a.ticker in self._assets for a in self._known.directory.assets_in(text))

    def _words_of(self, text: str) -> tuple[tuple[re.Pattern[str], ...], tuple[str, ...]]:
        plain = {*self._known.common_words, *self._known.name_stopwords}
        latin = [w for w in units(text) if not has_cjk(w) and len(w) >= _LEAST_LETTERS]
        pairs = tuple(a + b for a, b in pairwise(text) if has_cjk(a) and has_cjk(b))
        telling = [w for w in latin if w not in plain] or ([] if pairs else latin or [text])
        return tuple(words_regex([word]) for word in telling), pairs
