"""A brief in lines of text, in the language of its question. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from agents.text.wording import references, term
from schemas.research_events import BriefReference, BriefSentence, BriefWritten, Change

_WORDS = {
    "of": ("{}, as of {}", "{}, 截至 {}"),
    "established": ("Established", "已证实或很可能"),
    "disputed": ("Disputed", "有争议"),
    "unsettled": ("Reported, not settled", "有此说法, 尚无定论"),
    "new_since": ("New since {}", "自 {} 以来的新变化"),
    "not_found": ("Not found", "没有查到"),
    "not_done": ("Not done", "未完成"),
    "published": ("Published as news, case", "已作为新闻提交, 案例"),
    "references": ("References", "参考"),
    "new_claim": ("new: {}", "新说法: {}"),
    "verdict_changed": ("{} → {}: {}", "{} → {}: {}"),
    "new_page": ("further pages: {}", "新增页面: {}"),
    "nothing_new": ("nothing", "没有变化"),
    "official": ("official", "官方"),
    "by_words": (" by word rules, read by no critic", "，仅由词语规则判断"),
    "undated": ("undated", "无日期"),
    "not_in_corpus": ("The bundled corpus has nothing on this.", "内置语料库中没有与此相关的资料。"),
}


def brief_lines(brief: BriefWritten) -> Iterator[str]:
    """Yield the lines of a brief: each section with its sentences and their references, then open questions and skipped steps."""
    zh = brief.language == "zh"
    yield _say("of", zh).format(brief.subject, f"{brief.as_of:%Y-%m-%d %H:%M} UTC")
    if not brief.claims and brief.provider_mode == "offline":
        yield f"\n{_say('not_in_corpus', zh)}"
    for name in ("established", "disputed", "unsettled"):
        sentences: tuple[BriefSentence, ...] = getattr(brief, name)
        yield from _section(_say(name, zh), [_claim_line(brief, s, zh=zh) for s in sentences])
    if brief.previous_as_of is not None:
        changes = [change_in_words(brief, change, zh=zh) for change in brief.new_since] or [_say("nothing_new", zh)]
        yield from _section(_say("new_since", zh).format(f"{brief.previous_as_of:%Y-%m-%d %H:%M}"), changes)
    yield from _section(_say("not_found", zh), brief.not_found)
    yield from _section(_say("not_done", zh), brief.not_done)
    yield from _section(_say("published", zh), brief.published)
    pages = [f"[{r.number}] {_dated(r, zh)} {r.title}{_official(r, zh)}\n      {r.url}" for r in brief.references]
    yield from _section(_say("references", zh), pages, mark="")


def _claim_line(brief: BriefWritten, sentence: BriefSentence, *, zh: bool) -> str:
    claim = brief.claims[sentence.claim]
    verdict = term(claim.verdict).of("zh" if zh else "en")
    if not any(evidence.quote for evidence in claim.evidence):
        verdict += _say("by_words", zh)
    return f"{sentence.text}{f'（{verdict}）' if zh else f' ({verdict}) '}{references(sentence.references)}"


def change_in_words(brief: BriefWritten, change: Change, *, zh: bool) -> str:
    """Return one change in a sentence with its references."""
    claim = brief.claims[change.claim]
    now, before = (term(verdict).of("zh" if zh else "en") for verdict in (claim.verdict, change.before or ""))
    values = (before, now, claim.claim) if change.kind == "verdict_changed" else (claim.claim,)
    return f"{_say(change.kind, zh).format(*values)} {references(change.references)}"


def brief_document(brief: BriefWritten) -> dict[str, Any]:
    """Return the brief as a JSON object, every field included."""
    fields = {name: getattr(brief, name) for name in brief.__struct_fields__ if name != "calls"}
    document: dict[str, Any] = msgspec.to_builtins(fields)
    return document


def _section(title: str, lines: list[str] | tuple[str, ...], mark: str = "- ") -> Iterator[str]:
    if lines:
        yield ""
        yield title
        yield from (f"  {mark}{line}" for line in lines)


def _dated(reference: BriefReference, zh: bool) -> str:
    return _say("undated", zh) if reference.published_at is None else f"{reference.published_at:%Y-%m-%d}"


def _official(reference: BriefReference, zh: bool) -> str:
    return f" ({_say('official', zh)})" if reference.official else ""


def _say(name: str, zh: bool) -> str:
    return _WORDS[name][zh]
