"""The search query of each provider, built from a claim: names, tickers and amounts, then words by weight, then event terms."""

from __future__ import annotations

import logging
import re
import warnings
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from agents.core.inquiry import About
from agents.evidence.claim import Claim
from agents.evidence.compiled import Compiled, compiled
from agents.text.injection import strip_invisible
from agents.text.matching import fold, has_cjk, words_pattern
from schemas.config import Tables

MAX_QUERY = 400
"""Characters; Tavily refuses longer queries."""
CHINESE_PROVIDERS = frozenset({"bocha", "ragflow"})
NAMES_FIRST = frozenset({"gdelt"})
"""Providers that search by English terms and require the first one on every page: a name, quoted if it has several words."""
_OFFICIAL_EVENTS = frozenset({"hack", "regulation", "partnership"})
_NEWS_EVENTS = frozenset({"hack", "regulation"})
_HEAD = 1200
"""Characters of the news that are used for a query."""
_ZH_HEAD = 600
"""Characters that Chinese keywords are taken from: news states its claim first, and the query has 5 ms."""
_AMOUNT = re.compile(
    r"[$€£¥]\s?\d[\d,.]{0,30}(?:\s?(?:[kKmMbB]n?|million|billion|trillion))?\b|\d[\d,.]{0,30}\s?(?:%|[亿万]\s?[\u4e00-\u9fff]{0,3}|"
    r"(?:million|billion)\b|[MB]\b|(?:BTC|ETH|USDC|USDT|SOL|XRP|BNB)\b)"
)
_PROPER = re.compile(r"(?<![A-Za-z0-9$])[A-Z][A-Za-z0-9]*(?:[.'&-][A-Za-z0-9]+)*(?:\s+[A-Z][a-z][A-Za-z0-9]*)?")
_STOP_WORD = re.compile(
    "the|of|is|and|to|in|that|we|for|an|are|by|be|as|on|with|can|if|from|which|you|it|this|then|at|have|all|not|one|has|or",
    re.ASCII | re.IGNORECASE,
)
"""English words that ``jieba.analyse`` skips."""
_WORD = re.compile(r"(?<![A-Za-z-])[a-z][a-z-]{4,}")


def build_query(claim: Claim, *, provider: str, tables: Tables) -> str:
    """Return the query for a provider, at most 400 characters: concrete terms first, then the words of the event.

    Tavily (and any other web search) gets Chinese and English mixed for Chinese news, Bocha and RAGFlow the language of
    the news, Arxiv English terms of method, GDELT the English names before the mixed words. Filler words (news, report, 新闻, 消息) are left out.
    """
    known = compiled(tables)
    text = fold(strip_invisible(claim.text[:_HEAD]))
    if provider == "arxiv":
        return _joined(known, [claim.asset_name or claim.asset, *_method_terms(claim, tables, text)])
    zh = claim.language == "zh" or has_cjk(text)
    chinese_only = provider in CHINESE_PROVIDERS and zh
    mixed = zh and not chinese_only
    concrete = [
        *(_english_names(known, claim, text) if provider in NAMES_FIRST else ()),
        *_concrete(known, claim, text),
    ]
    words = _zh_keywords(text, 5) if zh else _en_words(known, text, 3)
    terms = [t for t in _event_terms(claim, tables, text) if _fits(t, zh=zh, mixed=mixed)]
    official = _official_words(claim, tables, zh=zh, mixed=mixed)
    if provider in NAMES_FIRST:
        terms, official = [_quoted(t) for t in terms], ()
    return _joined(known, [*concrete[:6], *words[:4], *terms, *official, *_venue(known, claim, tables, zh)])


def fit_query(keywords: str, claim: Claim, *, provider: str, tables: Tables) -> str:
    """Return a model's keywords in the form that a provider needs, or a built query if they cannot be converted.

    Arxiv always gets method terms. GDELT gets the names before the keywords: its first term is one that every page must
    hold. Bocha and RAGFlow get the Chinese of mixed keywords, with the names and the amounts.
    """
    if provider == "arxiv":
        return build_query(claim, provider=provider, tables=tables)
    if provider in NAMES_FIRST:
        known, vague = compiled(tables), _vague(tables)
        words = [w for w in keywords.split() if w.casefold() not in vague]
        return _joined(known, [*_english_names(known, claim, fold(claim.text[:_HEAD])), *words])
    if provider not in CHINESE_PROVIDERS or not (claim.language == "zh" or has_cjk(claim.text)):
        return keywords
    kept = [w for w in keywords.split() if has_cjk(w) or w != w.lower() or any(c.isdigit() for c in w)]
    if not any(has_cjk(w) for w in kept):
        return build_query(claim, provider=provider, tables=tables)
    return " ".join(kept)


def _english_names(known: Compiled, claim: Claim, text: str) -> list[str]:
    named = known.entities.named(claim.entity) if claim.entity else ()
    entities = {id(e): e for e in (*named, *known.entities.mentioned(text))}
    names = [_english_name(e.name, e.aliases, text) for e in list(entities.values())[:2]]
    coin = [n for n in (claim.asset_name, *known.asset_names.get(claim.asset.upper(), ())) if n.isascii()]
    return [_quoted(n) for n in (*names, *coin[:1]) if n]


def _english_name(name: str, aliases: tuple[str, ...], text: str) -> str:
    # As the news writes it; else the shortest, which is how others write it: SEC.
    english = [n for n in (name, *aliases) if n.isascii() and len(n) > 2]
    written = [n for n in english if n.casefold() in text.casefold()]
    return max(written, key=len) if written else min(english, key=len, default="")


def _quoted(term: str) -> str:
    return f'"{term}"' if " " in term and term.isascii() else term


def _vague(tables: Tables) -> frozenset[str]:
    """Return the words that ask for an official page. With a provider that matches any term, they match every statement."""
    return frozenset(w.casefold() for t in tables.lexicon.get("official_query_en", ()) for w in t.split())


def fallback_query(draft: About) -> str:
    """Return ``asset event_type``, with ``news official`` for hack and regulation."""
    tail = " news official" if draft.event_type in _NEWS_EVENTS else ""
    return f"{draft.asset} {draft.event_type}{tail}".strip()[:MAX_QUERY]


def _concrete(known: Compiled, claim: Claim, text: str) -> list[str]:
    named = [claim.entity] if claim.entity else []
    entities = known.entities.mentioned(text)
    written = [m for m in (_as_written(e.name, e.aliases, text) for e in entities) if m]
    proper = [p for p in _PROPER.findall(text) if not all(w.lower() in known.name_stopwords for w in p.split())]
    amounts = [a.strip(" ,.") for a in _AMOUNT.findall(text)]
    asset = [claim.asset] if claim.asset and claim.asset.lower() not in {"unknown", "none", "n/a"} else []
    # Names and amounts alternate, so that neither fills the query alone.
    return [*named, *asset, *written[:3], *amounts[:2], *_trimmed(known, proper)[:4]]


def _as_written(name: str, aliases: tuple[str, ...], text: str) -> str | None:
    hits = [n for n in (name, *aliases) if n.casefold() in text.casefold()]
    return max(hits, key=len) if hits else None


def _trimmed(known: Compiled, names: Iterable[str]) -> list[str]:
    out = []
    for name in names:
        words = [w for w in name.split() if w.lower() not in known.name_stopwords]
        out.append(" ".join(words))
    return out


def _en_words(known: Compiled, text: str, limit: int) -> tuple[str, ...]:
    seen = [w for w in _WORD.findall(text) if w not in known.name_stopwords and w not in known.common_words]
    return tuple(sorted(dict.fromkeys(seen), key=lambda w: (-len(w), seen.index(w)))[:limit])


@lru_cache(maxsize=1)
def _dictionary() -> tuple[Any, dict[str, float], float]:
    """Return jieba's tokenizer, its weight of each word, and the median weight, all from the files that it bundles.

    Loading takes about a second. ``jieba.analyse`` takes more than twice as long, because it also loads the tables of a
    part-of-speech tagger. jieba's cache file is bypassed, because pure code writes nothing.
    """
    with warnings.catch_warnings():
        # jieba 0.42 imports pkg_resources where available; that deprecation warning is not ours to report.
        warnings.simplefilter("ignore")
        import jieba
    jieba.setLogLevel(logging.WARNING)
    tokenizer = jieba.Tokenizer()
    with tokenizer.get_dict_file() as dictionary:
        tokenizer.FREQ, tokenizer.total = tokenizer.gen_pfdict(dictionary)
    tokenizer.initialized = True
    with jieba.get_module_res("analyse", "idf.txt") as file:
        lines = file.read().decode().splitlines()
    weights = {word: float(weight) for word, weight in (line.split(" ") for line in lines)}
    return tokenizer, weights, sorted(weights.values())[len(weights) // 2]


def _zh_keywords(text: str, limit: int) -> tuple[str, ...]:
    """Return the highest-weighted words of a Chinese text, heaviest first, of two characters or more.

    Recorded queries depend on the order, which is that of ``jieba.analyse.extract_tags``: TF-IDF, then first come.
    """
    tokenizer, weights, median = _dictionary()
    words = tokenizer.cut(text[:_ZH_HEAD])
    counts = Counter(w for w in words if len(w.strip()) > 1 and not _STOP_WORD.fullmatch(w))
    total = counts.total()
    heaviest = sorted(counts, key=lambda word: counts[word] * (weights.get(word, median) / total), reverse=True)
    return tuple(w for w in heaviest[: limit * 2] if not w.isascii())[:limit]


def _event_terms(claim: Claim, tables: Tables, text: str) -> list[str]:
    """Return the terms of the event type, then those of every finer entry that the text names."""
    out = list(tables.event_terms.get(claim.event_type, ()))
    low = text.casefold()
    for key, terms in tables.event_terms.items():
        if ":" not in key and key != claim.event_type and any(_named(t, low) for t in terms):
            out += terms[:2]
    return out[:9]


def _named(term: str, low: str) -> bool:
    if has_cjk(term):
        return term in low
    return re.search(words_pattern((term.casefold(),)), low) is not None


def _method_terms(claim: Claim, tables: Tables, text: str) -> tuple[str, ...]:
    table = tables.event_terms
    finer = [
        k for k in table if k.startswith("arxiv:") and any(_named(t, text.casefold()) for t in table.get(k[6:], ()))
    ]
    key = next((k for k in (f"arxiv:{claim.event_type}", *finer) if k in table), "arxiv:other")
    return table.get(key, ("cryptocurrency",))


def _official_words(claim: Claim, tables: Tables, *, zh: bool, mixed: bool) -> tuple[str, ...]:
    if claim.event_type not in _OFFICIAL_EVENTS:
        return ()
    chinese, english = (tables.lexicon.get(f"official_query_{k}", ()) for k in ("zh", "en"))
    return (chinese if zh else ()) + (english if mixed or not zh else ())


def _venue(known: Compiled, claim: Claim, tables: Tables, zh: bool) -> tuple[str, ...]:
    kinds = [e.kind for e in known.entities.mentioned(claim.entity or claim.text[:_HEAD])[:1]]
    terms = tables.event_terms.get(f"venue:{kinds[0]}", ()) if kinds else ()
    return tuple(t for t in terms if has_cjk(t) == zh)[:1]


def _fits(term: str, *, zh: bool, mixed: bool) -> bool:
    return mixed or has_cjk(term) == zh


def _joined(known: Compiled, words: Iterable[str]) -> str:
    out: list[str] = []
    seen: set[str] = set()
    size = -1
    for word in words:
        clean = " ".join(known.filler.sub(" ", word).split())
        key = clean.casefold()
        if not clean or key in seen or size + 1 + len(clean) > MAX_QUERY:
            continue
        seen.add(key)
        out.append(clean)
        size += 1 + len(clean)
    return " ".join(out)
