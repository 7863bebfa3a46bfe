"""What a case found says, in Chinese or English: its verdict, its quotes, and the words for finding none.

Texts from outside (summaries, quotes) are one line without links and without brackets that would read as citations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from urllib.parse import urlsplit

from agents.analysis.names import said, signal_facts
from agents.analysis.pages import linkable
from agents.core.answers import one_line
from agents.research.citations import cited_only
from agents.research.turn import Turn
from schemas.evidence import FoundPage, FoundSignal

MAX_TOLD_QUOTES = 3
MAX_NEAR = 3


def summary_in(signal: FoundSignal, *, zh: bool) -> str:
    """Return the summary in the reader's language where somebody wrote it, else in that of the news."""
    text = (signal.summary_zh if zh else signal.summary_en) or signal.summary
    return cited_only(one_line(text, 300), ())[0]


def searched_text(signal: FoundSignal) -> str:
    """Return a case as a model reads it: the summary in each language, and what its pages say."""
    summaries = dict.fromkeys(filter(None, (signal.summary, signal.summary_en, signal.summary_zh)))
    return "\n".join((*summaries, *(f"{_host(p.url)} ({p.stance}): {p.quote or '(no quote)'}" for p in signal.pages)))


def case_told(signal: FoundSignal, *, zh: bool) -> str:
    """Return a case as a list item of Markdown that cites it: summary, verdict, order, confidence, time, and its pages."""
    head = f"- {summary_in(signal, zh=zh)} [{signal.number}]"
    quoted = [f"> {_quoted(p.quote, zh)} – {_said_by(p, zh)}" for p in signal.pages if p.quote][:MAX_TOLD_QUOTES]
    others = ("、" if zh else ", ").join(_said_by(p, zh) for p in signal.pages if not p.quote)
    facts = (
        f"{said(signal.verdict or '', zh=zh)} · {signal_facts(signal, zh=zh)} · {signal.decided_at:%Y-%m-%d %H:%M} UTC"
    )
    blocks = (facts, *quoted, *([f"{said('pages', zh=zh)}{others}"] if others else []))
    return "\n\n".join((head, *(f"  {block}" for block in blocks)))


def lead_of(turn: Turn, cases: Sequence[FoundSignal], *, zh: bool) -> str:
    """Return the sentence before the cases where no model wrote one: how many match what was looked for, with which verdicts."""
    count = len(cases)
    told = [(n, said(verdict, zh=zh)) for verdict, n in Counter(s.verdict or "" for s in cases).most_common()]
    sought = _sought(turn, zh)
    if zh:
        return f"本系统有 {count} 个案例符合（{sought}）：" + "、".join(f"{n} 个{word}" for n, word in told) + "。"
    match = "1 case of this pipeline matches" if count == 1 else f"{count} cases of this pipeline match"
    return f"{match} ({sought}): " + ", ".join(f"{n} {word}" if count > 1 else word for n, word in told) + "."


def none_told(turn: Turn, *, zh: bool) -> str:
    """Return that no case says anything on the question, with what was looked for; cases near to it are cited."""
    near = "".join(f"[{s.number}]" for s in turn.data.signals[:MAX_NEAR]) if turn.data else ""
    if zh:
        return f"本系统没有案例说到这一点（{_sought(turn, zh)}）。" + (
            f"下列案例只提到其中一部分：{near}" if near else ""
        )
    more = f" Cases that name only a part of it: {near}" if near else ""
    return f"No case of this pipeline says anything on that ({_sought(turn, zh)}).{more}"


def not_looked_up(why: str, *, zh: bool) -> str:
    """Return that the cases could not be looked up, and why."""
    reason = one_line(why, 200)
    if zh:
        return f"未能查到本系统的案例，因此无法据此作答{f'（{reason}）' if reason else ''}。请稍后再问。"
    return f"The cases of this pipeline could not be looked up{f' ({reason})' if reason else ''}. Ask again in a while."


def _sought(turn: Turn, zh: bool) -> str:
    assert turn.routed is not None and turn.routed.cases is not None
    query = turn.routed.cases
    names = [next((n for n in spelled if n.isascii() is not zh), spelled[0]) for spelled in query.names]
    named = [*(names or filter(None, [query.asset])), *(said(v, zh=zh) for v in query.verdicts)]
    days = max(query.hours // 24, 1)
    if zh:
        return f"过去 {days} 天，查找：{'、'.join(named) or '所有信号'}"
    return f"the last {'day' if days == 1 else f'{days} days'}, looked for: {', '.join(named) or 'any signal'}"


def _quoted(quote: str, zh: bool) -> str:
    text = cited_only(one_line(quote, 300), ())[0]
    return f"「{text}」" if zh else f"“{text}”"


def _said_by(page: FoundPage, zh: bool) -> str:
    kinds = (said(page.stance, zh=zh), *([said("official", zh=zh)] if page.official else []))
    return f"{_host(page.url)}（{'，'.join(kinds)}）" if zh else f"{_host(page.url)} ({', '.join(kinds)})"


def _host(url: str) -> str:
    # An address that may be no link may not be written either: its host could hold marks that make one.
    return (urlsplit(url).hostname or "?").removeprefix("www.") if linkable(url) else "?"
