"""Search over the bundled synthetic corpus: BM25 over English word stems and Chinese bigrams. For demos and tests.

Deterministic. It knows only the query of a case and returns pages of any date. Dropping evidence from the future is the
verification's task, and the corpus contains such pages so that it is exercised.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections import Counter, defaultdict
from datetime import datetime
from decimal import Decimal
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from infra.ports import Answer, Free
from schemas.calls import ProviderMode
from schemas.effects import Search, SearchReply
from schemas.errors import ConfigError
from schemas.evidence import SearchResult

K1, B = 1.2, 0.3
"""BM25 (Robertson and Zaragoza 2009): usual saturation; little length norm, since all documents are short."""
STEM_CHARACTERS = 6
"""English words are cut to this length: a crude stemmer that joins approve, approves, approval."""
MIN_SCORE = 0.2
"""Below this score a document shares only chance words with the query."""
TITLE_WEIGHT = 2

_TOKEN = re.compile(r"[a-z0-9]+(?:[.,][0-9]+)*|[一-鿿]+")
_ASKING_EN = (
    "a an the of to in on at for by and or with from as is are be has have it its this that all says say said over after"
    " official statement announcement announces confirmed press release report latest crypto not will"
)
_ASKING_ZH = "官方 声明 公告 方声 方公 明官 确认 新闻 消息 报道 最新"
_ASKING = frozenset({word[:STEM_CHARACTERS] for word in _ASKING_EN.split()} | set(_ASKING_ZH.split()))


class Document(msgspec.Struct, frozen=True):
    """One page of the corpus. ``published_at`` (UTC) is None for a page that bears no date, as many on the web do."""

    id: str
    url: str
    title: str
    content: str
    lang: str
    published_at: datetime | None = None


class OfflineSearch(Free):
    """The search port of offline mode. Each reply is delayed by ``latency_s`` seconds."""

    provider = "offline"
    mode: ProviderMode = "offline"

    def __init__(
        self, corpus_dir: Path | None = None, *, latency_s: float = 0.0, documents: tuple[Document, ...] | None = None
    ) -> None:
        """``documents`` are searched instead of those of the folder."""
        self._latency_s = latency_s
        self.documents = load_corpus(corpus_dir) if documents is None else documents
        self._counts = [Counter(terms(f"{(d.title + ' ') * TITLE_WEIGHT}{d.content}")) for d in self.documents]
        self._lengths = [sum(c.values()) for c in self._counts]
        self._mean_length = sum(self._lengths) / max(1, len(self._lengths))
        self._postings: dict[str, list[int]] = defaultdict(list)
        for number, counts in enumerate(self._counts):
            for term in counts:
                self._postings[term].append(number)

    async def perform(self, effect: Any) -> Answer:
        """Answer one :class:`~schemas.effects.Search`. Never fails; an empty result means that nothing matched."""
        search: Search = effect
        if self._latency_s > 0:
            await asyncio.sleep(self._latency_s)
        hits = [(d, s) for d, s in self.rank(search.query) if _inside(d, search.include_domains)]
        results = tuple(_result(d, s, self.provider) for d, s in hits[: search.max_results])
        reply = SearchReply(provider=search.provider, query=search.query, results=results)
        return Answer(reply=reply, cost_usd=Decimal(0), cost_source="offline")

    async def close(self) -> None: ...

    def rank(self, query: str) -> list[tuple[Document, float]]:
        """Return matching documents with scores in (0, 1], best first; 0.6 and more is a clear match."""
        wanted = {t: self._weight(t) for t in dict.fromkeys(terms(query)) if not _asks(t)}
        total = sum(wanted.values())
        if total == 0:
            return []
        gains: dict[int, float] = defaultdict(float)
        shared: dict[int, int] = defaultdict(int)
        for term, weight in wanted.items():
            for number in self._postings.get(term, ()):
                gains[number] += weight * self._saturated(number, term)
                shared[number] += 1
        scored = [(self.documents[n], _score(gain / total, shared[n], len(wanted))) for n, gain in gains.items()]
        kept = [(d, s) for d, s in scored if s >= MIN_SCORE]
        return sorted(kept, key=lambda pair: (-pair[1], pair[0].id))

    def _weight(self, term: str) -> float:
        seen = len(self._postings.get(term, ()))
        n = len(self.documents)
        idf = math.log(1 + (n - seen + 0.5) / (seen + 0.5))
        # Words that no document has barely discriminate; a full share would drown the others.
        return idf if seen else 0.5 * idf

    def _saturated(self, number: int, term: str) -> float:
        count = self._counts[number][term]
        norm = K1 * (1 - B + B * self._lengths[number] / self._mean_length)
        return count * (K1 + 1) / (count + norm)


def load_corpus(folder: Path | None = None) -> tuple[Document, ...]:
    """Return the documents of every ``*.jsonl`` in the folder (default: the bundled one), ordered by id.

    Raises:
        ConfigError: the folder holds none, or a line does not decode; the message names it.
    """
    root: Any = folder or resources.files("infra.offline").joinpath("corpus")
    decoder = msgspec.json.Decoder(Document)
    found: list[Document] = []
    for file in sorted((f for f in root.iterdir() if f.name.endswith(".jsonl")), key=lambda f: f.name):
        for number, line in enumerate(file.read_text("utf-8").splitlines(), start=1):
            try:
                found.append(decoder.decode(line))
            except msgspec.DecodeError as exc:
                raise ConfigError(f"{file.name} line {number} is no document: {exc}; correct or remove it") from exc
    if not found:
        raise ConfigError(f"the offline corpus {root} holds no documents: install the package again")
    return tuple(sorted(found, key=lambda d: d.id))


def terms(text: str) -> list[str]:
    """Return English stems, numbers and Chinese bigrams in order."""
    found: list[str] = []
    for token in _TOKEN.findall(text.lower()):
        if token[0].isascii():
            found.append(token.replace(",", "") if token[0].isdigit() else token[:STEM_CHARACTERS])
        elif len(token) == 1:
            found.append(token)
        else:
            found += [token[i : i + 2] for i in range(len(token) - 1)]
    return found


def _asks(term: str) -> bool:
    # Query boilerplate: these words occur in every planned query and match any page.
    return term in _ASKING


def _score(share: float, shared: int, wanted: int) -> float:
    # The share of the query's weight that a document holds. Half of it is a clear match: queries name things in two
    # languages and by several words. The curve puts 0.5 at 0.71 and 0.37 at 0.6. One shared word of several is no clear
    # match, however rare the word is.
    most = 0.5 if shared == 1 and wanted > 2 else 1.0
    return round(min(most, 1 - math.exp(-2.5 * min(share, 1.5))), 4)


def _inside(document: Document, domains: tuple[str, ...]) -> bool:
    host = urlsplit(document.url).hostname or ""
    return not domains or any(host == d or host.endswith("." + d) for d in domains)


def _result(document: Document, score: float, provider: str) -> SearchResult:
    return SearchResult(
        title=document.title,
        url=document.url,
        domain=urlsplit(document.url).hostname or "",
        snippet=document.content,
        score=score,
        published_at=document.published_at,
        provider=provider,
    )
