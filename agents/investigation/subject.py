"""The subject of an investigation: from the question, its key, the event that opens a case, and the news that concern it.

Rules alone, so the same question has the same subject for everybody and every model. Each match of a watch's subject with
a news item costs an investigation.
"""

from __future__ import annotations

import re
from datetime import datetime
from itertools import pairwise

from agents.evidence.compiled import compiled
from agents.text.matching import fold_han, has_cjk, units, words_regex
from schemas.config import Tables
from schemas.ids import normalise_text
from schemas.news import News, language_of
from schemas.research_events import InvestigationAsked, Limits
from schemas.signals import Draft

MAX_QUESTION = 500
"""Characters of a question."""
MAX_SUBJECT = 120
_ENDS = " ?.!\uff1f\u3002\uff01"
_AROUND = " ,\uff0c\u3001\u7684\u201c\u201d\"\u2019'"
"""Marks, and the Chinese particle, that remain around a name."""
_ASKS_EN = re.compile(
    r"^(?:please\s+|can you\s+|could you\s+)*(?:monitor|follow|watch|track|investigate|research|check|examine"
    r"|look into|keep an eye on|find out(?: more)?(?: about)?|tell me(?: more)? about"
    r"|what(?:'s|’s| is| are)(?: (?:new|happening))?)\s+(?:(?:with|on|about|at|around|in)\s+)?",
    re.IGNORECASE,
)
_LATEST_EN = re.compile(
    r"^(?:the\s+)?(?:latest|recent|newest|new)?\s*(?:news|developments?|updates?|progress)\s+(?:on|about|of|from|around|with)\s+",
    re.IGNORECASE,
)
_TAIL_EN = re.compile(
    r"(?:['’]s)?\s+(?:(?:latest|recent|newest|new|current)\s+)*"
    r"(?:developments?|news|updates?|progress|situation|moves?|doings)$",
    re.IGNORECASE,
)
_ASKS_ZH = re.compile(
    r"^(?:请|麻烦|帮我|帮忙|持续|继续)*(?:关注|监控|监测|跟踪|追踪|跟进|调查|研究|查一下|查查|看看|了解|盯)(?:一下|下|着|住)?"
)
_TAIL_ZH = re.compile(
    r"(?:的|有关|相关|最新|近期|最近|目前|现在|当前|有什么|有哪些)*(?:进展|动态|消息|情况|新闻|动向|发展|动作|近况)[??。.]*$"
)


def subject_of(question: str) -> str:
    """Return the subject of a question: “DeepSeek” of “Monitor DeepSeek's latest developments” and of “关注DeepSeek的最新进展”.

    Without a matching rule it is the question itself, on one line and bounded.
    """
    written = " ".join(question.split()).strip(_ENDS)
    named = _TAIL_EN.sub("", _LATEST_EN.sub("", _ASKS_EN.sub("", written)))
    named = _TAIL_ZH.sub("", _ASKS_ZH.sub("", named))
    return (named.strip(_AROUND) or written)[:MAX_SUBJECT]


def subject_key(subject: str) -> str:
    """Return the key of a subject: without case, white space, punctuation and Chinese variants."""
    return normalise_text(fold_han(subject))


def asked(
    question: str,
    *,
    as_of: datetime,
    config_hash: str,
    limits: Limits | None = None,
    previous: str | None = None,
    watch: str | None = None,
) -> InvestigationAsked:
    """Return the event that opens an investigation. Pure: equal arguments give equal events.

    The id of its case is :func:`schemas.ids.investigation_id`; so one key opens one investigation, however often it is sent.

    Raises:
        ValueError: the question holds no word, or more than :data:`MAX_QUESTION` characters; the text says what to do.
    """
    if not normalise_text(question):
        raise ValueError(
            "the subject holds no word: write what is to be looked into, such as “DeepSeek's latest developments”"
        )
    if len(question) > MAX_QUESTION:
        raise ValueError(f"the subject has {len(question)} characters: write it in at most {MAX_QUESTION}")
    return InvestigationAsked(
        question=question,
        subject=subject_of(question),
        as_of=as_of,
        config_hash=config_hash,
        language=language_of(News(source="", text=question, published_at=as_of)),
        limits=limits or Limits(),
        previous=previous,
        watch=watch,
    )


_LEAST_LETTERS = 2
_PAIRS_SHARE = 2 / 3
"""Share of a Chinese subject's neighbouring characters that a text must contain: 稳定币监管 is also 对稳定币的监管."""


class SubjectMatcher:
    """The subject of a watch, compiled for matching many news items."""

    def __init__(self, subject: str, tables: Tables) -> None:
        self._known = compiled(tables)
        text = subject_of(subject)
        self._entities = {e.name for e in self._known.entities.mentioned(text)}
        self._assets = {a.ticker for a in self._known.directory.assets_in(text)}
        self._by_words = not (self._entities or self._assets)
        self._words, self._pairs = self._words_of(fold_han(text))

    def matches(self, text: str, draft: Draft) -> bool:
        """Return whether the news item names an entity or asset of the subject, or triage found one.

        If the subject has no entity or asset of the tables: whether the text contains all its words.
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
        distinctive = [w for w in latin if w not in plain] or ([] if pairs else latin or [text])
        return tuple(words_regex([word]) for word in distinctive), pairs
