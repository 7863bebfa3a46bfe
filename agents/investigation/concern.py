"""Whether a news item concerns the subject of a watch. Rules alone: each match costs an investigation."""

from __future__ import annotations

import re

from agents.evidence.compiled import compiled
from agents.investigation.subject import subject_of
from agents.text.matching import fold_han, has_cjk, units, words_regex
from agents.text.segment import zh_keywords
from schemas.config import Tables
from schemas.signals import Draft

_ZH_WORDS = 3
_LEAST_LETTERS = 2


class Concern:
    """The subject of a watch, made ready for many news items."""

    def __init__(self, subject: str, tables: Tables) -> None:
        self._known = compiled(tables)
        text = subject_of(subject)
        self._entities = {e.name for e in self._known.entities.mentioned(text)}
        self._assets = {a.ticker for a in self._known.directory.assets_in(text)}
        self._words = () if self._entities or self._assets else self._words_of(fold_han(text))

    def is_met(self, text: str, draft: Draft) -> bool:
        """Whether the news name an entity or an asset that the subject names, or triage found one of them.

        For a subject that names none of the tables: whether the text holds all of its words.
        """
        if self._words:
            folded = fold_han(text)
            return all(word.search(folded) for word in self._words)
        if draft.asset in self._assets:
            return True
        named = f"{text} | {draft.entity or ''}"
        if any(e.name in self._entities for e in self._known.entities.mentioned(named)):
            return True
        return bool(self._assets) and any(a.ticker in self._assets for a in self._known.directory.assets_in(text))

    def _words_of(self, text: str) -> tuple[re.Pattern[str], ...]:
        plain = {*self._known.common_words, *self._known.name_stopwords}
        latin = [w for w in units(text) if not has_cjk(w) and len(w) >= _LEAST_LETTERS]
        telling = [w for w in latin if w not in plain] or latin
        chinese = zh_keywords(text, _ZH_WORDS) if has_cjk(text) else ()
        return tuple(words_regex([word]) for word in (*telling, *chinese)) or (re.compile(re.escape(text), re.I),)
