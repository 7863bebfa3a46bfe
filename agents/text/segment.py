"""Chinese keywords by TF-IDF, from jieba's bundled dictionary.

Loading the dictionary takes about a second; it is loaded at the first Chinese text and kept. jieba's cache file is
bypassed, because pure code writes nothing: each process builds the table from the packaged dictionary.
"""

from __future__ import annotations

import logging
import warnings
from functools import lru_cache
from typing import Any

_MAX_TEXT = 600
"""Characters that keywords are taken from: news states its claim first, and the query has 5 ms."""


@lru_cache(maxsize=1)
def _extractor() -> Any:
    with warnings.catch_warnings():
        # jieba 0.42 imports pkg_resources where available; that deprecation warning is not ours to report.
        warnings.simplefilter("ignore")
        import jieba
        from jieba.analyse import TFIDF
    jieba.setLogLevel(logging.WARNING)
    tokenizer = jieba.Tokenizer()
    with tokenizer.get_dict_file() as dictionary:
        tokenizer.FREQ, tokenizer.total = tokenizer.gen_pfdict(dictionary)
    tokenizer.initialized = True
    extractor = TFIDF()
    extractor.tokenizer = tokenizer
    return extractor


def zh_keywords(text: str, limit: int) -> tuple[str, ...]:
    """Return the highest-weighted words of a Chinese text, heaviest first, of two characters or more."""
    found: list[str] = _extractor().extract_tags(text[:_MAX_TEXT], topK=limit * 2)
    return tuple(w for w in found if len(w) > 1 and not w.isascii())[:limit]
