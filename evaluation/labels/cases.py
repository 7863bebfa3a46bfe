"""Finds the cases that labels name, by the rule of ``newsproof case``. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from evaluation.labels.file import Label

PREFIX_LENGTH = 4
"""Characters that a prefix of a case id needs at least."""


class KnownCase(msgspec.Struct, frozen=True):
    """A case of the tables. ``source`` and ``external_id`` are the news's, empty where they are not known any more."""

    case_id: str
    source: str = ""
    external_id: str = ""


class Found(msgspec.Struct, frozen=True):
    """``cases`` pairs labels with case ids, in order; ``unknown`` and ``ambiguous`` are the others."""

    cases: tuple[tuple[Label, str], ...]
    unknown: tuple[Label, ...]
    ambiguous: tuple[tuple[Label, tuple[str, ...]], ...]


def find_cases(labels: Iterable[Label], known: Sequence[KnownCase]) -> Found:
    """Match each label with the one case that has its name: a case id, else an external id (or ``source:external_id``),
    else a prefix of a case id of at least :data:`PREFIX_LENGTH` characters."""
    ids = sorted({case.case_id for case in known})
    whole, by_news = set(ids), defaultdict[str, set[str]](set)
    for case in known:
        if case.external_id:
            by_news[case.external_id].add(case.case_id)
            by_news[f"{case.source}:{case.external_id}"].add(case.case_id)

    def candidates(name: str) -> tuple[str, ...]:
        if name in whole:
            return (name,)
        return tuple(sorted(by_news.get(name, ()))) or _with_prefix(ids, name.lower())

    matched: list[tuple[Label, str]] = []
    unknown: list[Label] = []
    ambiguous: list[tuple[Label, tuple[str, ...]]] = []
    for label in labels:
        found = candidates(label.case)
        if len(found) == 1:
            matched.append((label, found[0]))
        elif found:
            ambiguous.append((label, found))
        else:
            unknown.append(label)
    return Found(tuple(matched), tuple(unknown), tuple(ambiguous))


def _with_prefix(ids: Sequence[str], prefix: str) -> tuple[str, ...]:
    if len(prefix) < PREFIX_LENGTH:
        return ()
    start = bisect_left(ids, prefix)
    return tuple(one for one in ids[start : start + 8] if one.startswith(prefix))
