"""The sources that an answer may cite, and the check of its citations. Code makes the list, never a model."""

from __future__ import annotations

import re
from collections.abc import Iterable

from agents.analysis.blocks import rounded_figure
from agents.analysis.names import display_name, field_word, signal_facts
from agents.analysis.pages import page_behind, page_of
from agents.core.answers import one_line
from schemas.evidence import FoundSignal, MarketValue
from schemas.research_events import DataCollected, Source

_CITED = re.compile(r"(?:\[|\u3010)\s?(\d{1,4}(?:\s?[,\uff0c\u3001]\s?\d{1,4})*)\s?(?:\]|\u3011)")
_NUMBER = re.compile(r"\d+")
_GAP = re.compile(r"[ \t]+(?=[.,;:!?\u3002\uff0c\uff1b]|$)", re.MULTILINE)
_BLOCKS = ("price", "macro", "fear_greed", "indicators", "onchain")
MAX_PREVIEW_FIGURES = 8


def sources_of(data: DataCollected | None, *, zh: bool = False) -> tuple[Source, ...]:
    """Return all citable sources: the signals under their own numbers, then each source of figures, named in Chinese if ``zh``."""
    if data is None:
        return ()
    by_source: dict[str, list[MarketValue]] = {}
    for value in (v for block in _BLOCKS for v in getattr(data, block)):
        by_source.setdefault(value.source, []).append(value)
    first = 1 + max((s.number for s in data.signals), default=0)
    named = enumerate(by_source.items(), start=first)
    market = (_market(number, name, values, page_of(name, data.asset), zh) for number, (name, values) in named)
    return (*(_signal(s, zh) for s in data.signals), *market)


def cited_only(text: str, sources: Iterable[Source]) -> tuple[str, int]:
    """Return the text with citations as ``[n]``, without those of unknown sources, and the number removed."""
    known, removed = {s.number for s in sources}, 0

    def kept(match: re.Match[str]) -> str:
        nonlocal removed
        numbers = [int(n) for n in _NUMBER.findall(match[1])]
        removed += sum(n not in known for n in numbers)
        return "".join(f"[{n}]" for n in numbers if n in known)

    shown = _CITED.sub(kept, text)
    return (_GAP.sub("", shown) if removed else shown), removed


def used(texts: Iterable[str], sources: tuple[Source, ...]) -> tuple[Source, ...]:
    """Return the sources that these texts cite, or all sources if none is cited, since the answer is based on them."""
    return cited_in(texts, sources) or sources


def cited_in(texts: Iterable[str], sources: Iterable[Source]) -> tuple[Source, ...]:
    """Return the sources that these texts cite."""
    numbers = {int(n) for text in texts for match in _CITED.finditer(text) for n in _NUMBER.findall(match[1])}
    return tuple(s for s in sources if s.number in numbers)


def _signal(signal: FoundSignal, zh: bool) -> Source:
    return Source(
        number=signal.number,
        title=one_line((signal.summary_zh if zh else signal.summary_en) or signal.summary, 160)
        or f"{signal.asset} {signal.event_type}",
        kind="signal",
        case_id=signal.case_id,
        url=page_behind(signal),
        observed_at=signal.decided_at,
        preview=f"{field_word(signal.verdict or '', zh=zh)} · {signal_facts(signal, zh=zh)}",
    )


def _market(number: int, name: str, values: list[MarketValue], page: str | None, zh: bool) -> Source:
    figures = "; ".join(
        f"{display_name(v.name, zh=zh)} {rounded_figure(v.value):,} {v.unit}".strip()
        for v in values[:MAX_PREVIEW_FIGURES]
    )
    more = f"; {len(values) - MAX_PREVIEW_FIGURES} more" if len(values) > MAX_PREVIEW_FIGURES else ""
    newest = max(v.observed_at for v in values)
    return Source(number=number, title=name, kind="market", url=page, observed_at=newest, preview=figures + more)
