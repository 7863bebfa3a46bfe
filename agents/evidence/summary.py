"""The summary of a signal: one sentence in English and in Chinese, the verdict first, then who says so, then the claim.

Templates make it from the signal's own fields, so that publish and the audit derive that of a later revision again. Only
what is confirmed or likely is told as it was said; anything else is told as a claim.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from agents.evidence.claim_words import behind, plainly
from agents.evidence.verdict import Measured
from agents.text.wording import Told, closed_up, joined, term, told
from schemas.evidence import ReadStance
from schemas.signals import ACTED_ON, NO_ASSET, WITHDRAWN, Signal, SignalEvidence

MOST_NAMED = 3
"""Parties and authorities that are named; their pages are all in the evidence."""


class Beside(msgspec.Struct, frozen=True, kw_only=True):
    """What is known when a case ends, and is in no field of its signal.

    ``dated_later``: pages that were dropped because they are dated after the news. ``worded``: the claim in the words of the
    synthesis, which only a confirmed one is told in.
    """

    measured: Measured | None = None
    dated_later: int = 0
    worded: Told = Told()


NOTHING = Beside()
HEADS = {
    "likely": Told("Likely", "很可能"),
    "unconfirmed": Told("Unconfirmed", "未证实"),
    "stale": Told("Old news", "旧闻"),
    "disputed": Told("Disputed", "有争议"),
    "refuted": Told("Refuted", "已被否认"),
    "unchecked": Told("Not checked", "未核查"),
}
_WHY_UNCHECKED = {
    "gate": Told("routine news, below the threshold for a check", "未达到核查门槛"),
    "disabled": Told("search is off", "搜索已关闭"),
    "not_planned": Told("no search was planned", "未安排搜索"),
    "budget": Told("budget", "预算不足"),
    "language": Told("no search in its language answered", "该语言的搜索未响应"),
    "search_failed": Told("search failed", "搜索失败"),
    "degraded": Told("analysis failed", "深入核查失败"),
}


def summarised(signal: Signal, beside: Beside = NOTHING) -> Signal:
    """Return the signal with the summary that its other fields lead to.

    A signal from before the claim was kept apart keeps its summary: what it was made of is not known.
    """
    if signal.claim_en is UNSET or signal.claim_zh is UNSET:
        return signal
    said = summary_of(signal, beside)
    return replace(
        signal, summary=said.of("zh" if signal.language == "zh" else "en"), summary_zh=said.zh, summary_en=said.en
    )


def summary_of(signal: Signal, beside: Beside = NOTHING) -> Told:
    """Return the sentence of a signal in both languages."""
    head, asides = _head(signal, beside), joined(_asides(signal, beside), "; ", "；")
    told_head = told("{head} ({asides})", "{head}（{asides}）", head=head, asides=asides) if asides else head
    return told("{head}: {claim}", "{head}：{claim}", head=closed_up(told_head), claim=_claim(signal, beside))


def _claim(signal: Signal, beside: Beside) -> Told:
    worded = beside.worded if signal.verdict == "confirmed" and signal.stage not in WITHDRAWN else Told()
    en, zh = worded.en or signal.claim_en or "", worded.zh or signal.claim_zh or ""
    if signal.verdict not in ACTED_ON or signal.stage in WITHDRAWN:
        en, zh = behind(en), behind(zh)
        en, zh = en and f"claim that {en}", zh and f"有消息称{' ' * zh[0].isascii()}{zh}"
    kind = term(signal.event_type)
    if signal.asset == NO_ASSET:
        about = told("claim of the type “{kind}”", "一则{kind}消息", kind=kind)
    else:
        about = told("claim about {asset} ({kind})", "关于 {asset} 的{kind}消息", asset=signal.asset, kind=kind)
    return Told(en or about.en, zh or about.zh)


def _head(signal: Signal, beside: Beside) -> Told:
    denied_by = speakers(signal.evidence, "denies")
    measured = Told("measured prices", "实测价格")
    match signal.stage, signal.verdict:
        case "retracted", "refuted":
            who = denied_by or Told("a later report", "后续消息")
            return told("Retracted, denied by {who}", "已撤回，{who} 否认", who=who)
        case "retracted", _:
            return Told("Retracted before it was checked", "已撤回，未完成核查")
        case "superseded", _:
            return Told("Superseded by another report", "已被另一报道取代")
        case _, "confirmed":
            official = speakers(signal.evidence, "supports", own=True)
            reported = Told() if official else speakers(signal.evidence, "supports")
            count = signal.supporting_sources or 0
            sources = told("{n:source|sources}", "{n} 个来源", n=count) if count else Told("the evidence", "证据")
            by = official or (
                measured if beside.measured == "confirms" else reported if count < 2 and reported else sources
            )
            return told("Confirmed by {by}", "已获 {by} 证实", by=by)
        case _, "disputed" if denied_by:
            return told("Disputed, denied by {who}", "有争议，{who} 否认", who=denied_by)
        case _, "refuted" if beside.measured == "contradicts":
            return told("Contradicted by {by}", "与{by}不符", by=measured)
        case _, "refuted" if denied_by:
            return told("Denied by {who}", "已被 {who} 否认", who=denied_by)
        case _, "unchecked" if signal.stage == "preliminary":
            return Told("Not checked yet", "尚未核查")
        case _, verdict:
            return HEADS[verdict or "unchecked"]


def speakers(evidence: tuple[SignalEvidence, ...], stance: ReadStance, *, own: bool = False) -> Told:
    """Return the parties and authorities that say so, on their own pages or else as others report; empty for nobody.

    ``own``: on their own pages alone.
    """
    said = [e for e in evidence if e.stance == stance and e.speaker is not None]
    themselves = [e for e in said if e.official]
    names = list(dict.fromkeys(Told(e.speaker, e.speaker_zh or e.speaker) for e in (themselves or said) if e.speaker))
    who = joined(names[:MOST_NAMED], " and ", " 与 ")
    if themselves:
        return who or Told("an official page", "官方网页")
    if own or not said:
        return Told()
    return told("{who}, as reported", "{who}（据报道）", who=who or Told("the party itself", "当事方"))


def _asides(signal: Signal, beside: Beside) -> Iterator[Told]:
    if signal.stage in WITHDRAWN:
        return
    official, sources = speakers(signal.evidence, "supports", own=True), signal.supporting_sources or 0
    if signal.verdict == "likely" and official:
        yield told("{who} says so", "{who} 称属实", who=official)
    elif signal.verdict == "likely":
        yield told("{n:source|sources}", "{n} 个来源", n=sources)
    elif signal.verdict == "unconfirmed" and sources:
        yield told("only {n:source|sources}", "仅 {n} 个来源", n=sources)
    elif signal.verdict in {"disputed", "refuted"} and not speakers(signal.evidence, "denies"):
        if denying := sum(e.stance == "denies" for e in signal.evidence):
            yield told("denied by {n:page|pages}", "{n} 个网页否认", n=denying)
    elif signal.verdict == "unchecked":
        reason, _, failure = (signal.unchecked_reason or "").partition(":")
        if reason in _WHY_UNCHECKED:
            yield joined((_WHY_UNCHECKED[reason], term(failure)), ": ", "：")
    if "amount_differs" in signal.risk_flags:
        # The party's own figure before anybody else's.
        given = sorted((e for e in signal.evidence if e.figure is not None), key=lambda e: not e.official)
        figures = (plainly(e.figure) for e in given[:1] if e.figure is not None)
        yield joined((Told("reported with another amount", "报道的金额不同"), *figures), ": ", "：")
    if beside.dated_later and signal.verdict != "confirmed":
        en, zh = "{n:page|pages} dated after the news left out", "{n} 个网页日期晚于新闻，未采用"
        yield told(en, zh, n=beside.dated_later)
