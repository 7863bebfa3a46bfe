"""What an investigation did not do, in sentences for people, in Chinese for a Chinese question and in English else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from agents.investigation.investigation import Investigation
from schemas.printable import Count

_WORDS: dict[str, tuple[str, str]] = {
    "offline": (
        "Offline: rules read a bundled, invented corpus. Nothing was looked up in the world.",
        "离线: 由规则读取内置的虚构语料, 没有查询任何真实来源。",
    ),
    "simulated": (
        "Simulated: the answers are made up for measuring. Nothing was looked up in the world.",
        "模拟: 回答仅用于测量, 没有查询任何真实来源。",
    ),
    "failed": ("{count:search|searches} of {what} failed ({why}).", "{what} 的 {count} 次搜索失败 ({why})。"),
    "budget": (
        "{count:search was|searches were} not made: the searches of this investigation or of the day are used up.",
        "有 {count} 次搜索没有进行: 本次调查或当日的搜索额度已用完。",
    ),
    "pages": (
        "{count:page|pages} did not open, and only what the search gave of each was read.",
        "有 {count} 个页面未能打开, 只读取了搜索结果中的内容。",
    ),
    "briefs": (
        "Earlier briefs could not be read ({why}), so nothing is marked as new.",
        "无法读取此前的简报 ({why}), 因此没有标出新内容。",
    ),
    "memory": ("Memory could not be read ({why}).", "无法读取记忆 ({why})。"),
    "by_words": (
        "No critic read the pages of {count:claim|claims}: rules over words judged instead.",
        "有 {count} 条说法没有经模型核读页面, 由词语规则判断。",
    ),
    "unread": (
        "No critic read the pages of {count:claim|claims} ({why}), judged at most likely.",
        "有 {count} 条说法没有经模型核读页面 ({why}), 至多判为“很可能”。",
    ),
    "unwritten": (
        "No model wrote the sentences ({why}): the claims stand as they were stated.",
        "没有模型撰写文字 ({why}): 各说法按原样列出。",
    ),
    "cut_short": ("It was cut short: {why}.", "调查提前结束: {why}。"),
    "finish": ("somebody asked for the brief at once", "有人要求立即给出简报"),
    "nothing": ("No page about the subject was found.", "没有找到与该主题有关的页面。"),
}


def not_done(case: Investigation, unwritten: str = "") -> Iterator[str]:
    """Yield what was not done, and why, in the order of the steps. ``unwritten``: why no model wrote the sentences."""

    def say(name: str, **values: object) -> str:
        return _WORDS[name][case.language == "zh"].format(
            **{name: Count(one) if isinstance(one, int) else one for name, one in values.items()}
        )

    if (mode := case.config.provider_mode) != "live":
        yield say(mode)
    if case.finishing:
        why = say("finish") if case.failed is None else f"{case.failed.step}: {case.failed.failure.kind}"
        yield say("cut_short", why=why)
    for name, _, why in (unread.partition(": ") for unread in (case.framed.unread if case.framed else ())):
        yield say(name, why=why)
    outcomes = [o for s in case.searches for o in s.outcomes]
    if denied := sum(o.failure is not None and o.failure.kind == "budget" for o in outcomes):
        yield say("budget", count=denied)
    lost = Counter((o.provider, o.failure.kind) for o in outcomes if o.failure and o.failure.kind != "budget")
    for (provider, kind), count in lost.items():
        yield say("failed", count=count, what=provider, why=kind)
    if shut := sum(len(s.failures) for s in case.scrapes):
        yield say("pages", count=shut)
    if case.searches and not case.searches[-1].findings.references:
        yield say("nothing")
    readings = case.critiqued.readings if case.critiqued else ()
    if plain := sum(r.stances is None and not r.unread for r in readings):
        yield say("by_words", count=plain)
    for why, count in Counter(r.unread for r in readings if r.unread).items():
        yield say("unread", count=count, why=why)
    if unwritten:
        yield say("unwritten", why=unwritten)
