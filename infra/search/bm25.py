"""BM25 over English word stems and Chinese bigrams, for texts that come and go. Pure and deterministic."""

from __future__ import annotations

import math
import re
from array import array
from collections import Counter, defaultdict

K1, B = 1.2, 0.3
"""BM25 (Robertson and Zaragoza 2009): usual saturation; little length norm, since all documents are short."""
STEM_CHARACTERS = 6
"""English words are cut to this length: a crude stemmer that joins approve, approves, approval."""
MIN_SCORE = 0.2
"""Below this score a document shares only chance words with the query."""
_DROPPED_SHARE = 5
"""Dropped texts leave the lists of their terms when there is one for this many others."""
_COUNT_BITS = 24
"""More than any text has terms."""

_TOKEN = re.compile(r"[a-z0-9]+(?:[.,][0-9]+)*|[一-鿿]+")
_ASKING_EN = (
    "a an the of to in on at for by and or with from as is are be has have it its this that all says say said over after"
    " official statement announcement announces confirmed press release report latest crypto not will"
)
_ASKING_ZH = "官方 声明 公告 方声 方公 明官 确认 新闻 消息 报道 最新"
_ASKING = frozenset({word[:STEM_CHARACTERS] for word in _ASKING_EN.split()} | set(_ASKING_ZH.split()))
"""Query boilerplate: these words occur in every planned query and match any page."""


class Bm25:
    """Texts by number, counted from 0 in the order of :meth:`add`; ``len`` counts those that were not dropped."""

    def __init__(self, *, least: int = 0) -> None:
        """``least``: while there are fewer texts, words are as rare as among so many: few texts on one event make its words common."""
        self._least = least
        self._next = self._all_lengths = 0
        self._lengths: dict[int, int] = {}
        self._dropped: set[int] = set()
        self._postings: dict[str, array[int]] = {}

    def __len__(self) -> int:
        return len(self._lengths) - len(self._dropped)

    def add(self, text: str) -> int:
        """Take a text in; return its number."""
        number, words = self._next, terms(text)
        self._next += 1
        self._lengths[number] = len(words)
        self._all_lengths += len(words)
        first = number << _COUNT_BITS
        for term, count in Counter(words).items():
            # The number and the count of a term in one integer: a fifth of what a pair takes.
            if (posted := self._postings.get(term)) is None:
                posted = self._postings[term] = array("Q")
            posted.append(first | count)
        return number

    def drop(self, number: int) -> None:
        """Leave a text out from now on. What it says of how rare words are goes a little later."""
        self._dropped.add(number)
        if len(self._dropped) * _DROPPED_SHARE > len(self._lengths):
            self._sweep()

    def _sweep(self) -> None:
        for number in self._dropped:
            self._all_lengths -= self._lengths.pop(number)
        for term, posted in list(self._postings.items()):
            if kept := array("Q", (posting for posting in posted if posting >> _COUNT_BITS not in self._dropped)):
                self._postings[term] = kept
            else:
                del self._postings[term]
        self._dropped.clear()

    def rank(self, query: str) -> list[tuple[int, float]]:
        """Return number and score of the matching texts, in no order; scores in (0, 1], 0.6 and more is a clear match."""
        wanted = {t: self._weight(t) for t in dict.fromkeys(terms(query)) if t not in _ASKING}
        total = sum(wanted.values())
        if total == 0:
            return []
        gains: dict[int, float] = defaultdict(float)
        shared: dict[int, int] = defaultdict(int)
        mean = self._all_lengths / max(1, len(self._lengths))
        for term, weight in wanted.items():
            for posted in self._postings.get(term, ()):
                number, count = posted >> _COUNT_BITS, posted & ((1 << _COUNT_BITS) - 1)
                norm = K1 * (1 - B + B * self._lengths[number] / mean)
                gains[number] += weight * (count * (K1 + 1) / (count + norm))
                shared[number] += 1
        scored = ((n, _score(gain / total, shared[n], len(wanted))) for n, gain in gains.items())
        return [(n, score) for n, score in scored if score >= MIN_SCORE and n not in self._dropped]

    def _weight(self, term: str) -> float:
        seen, n = len(self._postings.get(term, ())), max(self._least, len(self._lengths))
        idf = math.log(1 + (n - seen + 0.5) / (seen + 0.5))
        # Words that no document has barely discriminate; a full share would drown the others.
        return idf if seen else 0.5 * idf


def terms(text: str) -> list[str]:
    """Return English stems, numbers and Chinese bigrams in order."""
    words: list[str] = []
    for token in _TOKEN.findall(text.lower()):
        if token[0].isascii():
            words.append(token.replace(",", "") if token[0].isdigit() else token[:STEM_CHARACTERS])
        elif len(token) == 1:
            words.append(token)
        else:
            words += [token[i : i + 2] for i in range(len(token) - 1)]
    return words


def _score(share: float, shared: int, wanted: int) -> float:
    # The share of the query's weight that a document holds. Half of it is a clear match: queries name things in two
    # languages and by several words. The curve puts 0.5 at 0.71 and 0.37 at 0.6. One shared word of several is no clear
    # match, however rare the word is.
    most = 0.5 if shared == 1 and wanted > 2 else 1.0
    return round(min(most, 1 - math.exp(-2.5 * min(share, 1.5))), 4)
