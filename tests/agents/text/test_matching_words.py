"""A word list is found exactly where its pattern alone would find it, though its words are looked for first."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest

from agents.text.grammar import NEGATIONS, negation_of
from agents.text.matching import Words, fold_han, words_pattern
from evaluation.replay.log_file import read_log_file

LEXICON = next(iter(read_log_file().snapshots.values())).tables.lexicon
LISTS = {key: words for key, words in LEXICON.items() if words}


def sentences(group: Iterable[str]) -> list[str]:
    """Every word of a list in a sentence, folded and in lower case."""
    words = (w.removesuffix("*") for w in group)
    return [fold_han(f"the exchange did not {w} anything, and no-{w} {w}ed 未{w}").lower() for w in words]


def test_a_list_is_found_where_its_pattern_finds_it() -> None:
    page = "\n".join([said for group in LISTS.values() for said in sentences(group)][::41])
    for key, group in LISTS.items():
        words, plain = Words(group), re.compile(words_pattern(w.lower() for w in group))
        own = [fold_han(w.removesuffix("*")).lower() for w in group]
        for text in [page, *own, *sentences(group), "", "nothing of it", "什么都没有", "a plain report of prices"]:
            ours, theirs = words.search(text), plain.search(text)
            assert (ours and ours.span()) == (theirs and theirs.span()), key
            assert [m.span() for m in words.finditer(text)] == [m.span() for m in plain.finditer(text)], key
            assert words.sub(" ; ", text) == plain.sub(" ; ", text), key


@pytest.mark.parametrize("key", [k for k in sorted(LISTS) if k.startswith("predicate/")])
def test_a_negation_is_found_where_its_pattern_finds_it(key: str) -> None:
    negation = negation_of(LISTS[key])
    found = 0
    for word in LISTS[key]:
        plain = fold_han(word.removesuffix("*")).lower()
        for said in ("not {}", "never been {}", "no {}", "no-{}", "neither {}", "nor {}", "without any {}", "didn't {}",
                     "cannot {}", "从未{}", "没有{}", "未{}", "无{}", "并非{}", "不会{}", "was {}"):  # fmt: skip
            text = said.format(plain)
            match = negation._pattern.search(text)
            assert (negation.search(text) is None) == (match is None)
            found += match is not None
    assert found > len(NEGATIONS)
