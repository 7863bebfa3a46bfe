"""Chinese keywords by TF-IDF, from jieba's bundled dictionary.

The dictionary takes about a second to read; it is read at the first Chinese text and kept. jieba's own cache file is
passed by, since pure code writes nothing: the table is built from the packaged dictionary each time a process starts.
"""

from __future__ import annotations

import logging
import warnings
from functools import lru_cache
from typing import Any

_MAX_TEXT = 600
"""Characters that keywords are taken from: a claim stands at the head of its news, and the query has 5 ms."""


@lru_cache(maxsize=1)
def _extractor() -> Any:
    with warnings.catch_warnings():
        # jieba 0.42 imports pkg_resources where it is there; its deprecation is not ours to report.
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
    """Return the Chinese text's words of most weight, heaviest first, of two characters or more."""
    found: list[str] = _extractor().extract_tags(text[:_MAX_TEXT], topK=limit * 2)
    return tuple(w for w in found if len(w) > 1 and not w.isascii())[:limit]


def warm_up() -> None:
    """Read the dictionary now, so that the first query does not wait for it."""
    _extractor()
