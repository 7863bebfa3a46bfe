"""The timeline of a case: every event as a sentence in English and in Chinese, for readers who do not know the code."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import msgspec

from agents.text.wording import Text, fill, joined, term
from newsproof.report.narrative import CRITIC_SAYS, NO_PAGES, findings_in_words, readers_in_words
from newsproof.report.recorded_reasons import as_written, translate_reason
from newsproof.report.signals import action_in_words, asset_in_words, verdict_in_words
from schemas import events as ev
from schemas.effects import Failure
from schemas.signals import MessagePart, Signal, StatedClaim
from streams.journal.case_reading import JournalRecord


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One event in both languages. ``after_s``: seconds since the opening. ``thought``: the reason, if recorded.

    Text of a model or a person is the same in both.
    """

    phase: str
    after_s: float
    what: str
    thought: str = ""
    what_zh: str = ""
    thought_zh: str = ""


def lines_of(records: Iterable[JournalRecord]) -> list[Line]:
    """Return one line per accepted record, in their order."""
    lines: list[Line] = []
    opened: datetime | None = None
    pages = True
    for record in (r for r in records if r.accepted):
        phase, what, why = sentence_of(record.event)
        if isinstance(record.event, ev.SearchCompleted):
            pages = bool(record.event.findings.references)
        elif isinstance(record.event, ev.EvidenceCritiqued) and not pages:
            what = NO_PAGES
        opened = opened or record.envelope.time
        after = (record.envelope.time - opened).total_seconds()
        lines.append(Line(phase=phase, after_s=after, what=what.en, thought=why.en, what_zh=what.zh, thought_zh=why.zh))
    return lines


def sentence_of(event: Any) -> tuple[str, Text, Text]:
    """Return (phase, what happened, why) of one event."""
    for kinds, tell in ((_OPENING, _describe_opening), (_SEARCHING, _describe_searching), (_ENDING, _describe_ending)):
        if isinstance(event, kinds):
            return tell(event)
    return _describe_aside(event)


_OPENING = (ev.EventReceived, ev.SecondLookOpened, ev.CaseTriaged, ev.StoryChecked, ev.ContextGathered)
_SEARCHING = (ev.ToolPlanned, ev.SearchCompleted, ev.PagesScraped, ev.KeywordsExpanded)
_ENDING = (ev.EvidenceCritiqued, ev.SignalSynthesized, ev.CaseDropped, ev.CaseFailed, ev.CaseDegraded)


def _describe_opening(event: Any) -> tuple[str, Text, Text]:
    match event:
        case ev.EventReceived(news=news, part=part) if part is not None:
            return "received", _further_claim(part, news.source), _NOTHING
        case ev.EventReceived(news=news, edits=edits, language=language):
            edit = fill("; an edit of case {case}", "，是对案例 {case} 的修改", case=edits) if edits else _NOTHING
            language_name = LANGUAGES.get(language, LANGUAGES["other"])
            en, zh = "Received from {source} ({said}){edit}.", "收到来自 {source} 的新闻（{said}）{edit}。"
            return "received", fill(en, zh, source=news.source, said=language_name, edit=edit), _NOTHING
        case ev.SecondLookOpened(after_s=after_s, number=number, verdict=verdict):
            en = "Second check after {n:minute|minutes} (number {number}). First verdict: {verdict}."
            zh = "{n} 分钟后再次核查（第 {number} 次）。首次结论：{verdict}。"
            told_of = {"n": round(after_s / 60), "number": number, "verdict": term(verdict)}
            return "second_look", fill(en, zh, **told_of), _NOTHING
        case ev.CaseTriaged(draft=draft, route=route, then=then, gate_reason=reason, claim=claim, part=part):
            what = fill(
                "First judgement: {kind}, {asset}, {action} ({direction}) with confidence {confidence}. {claim}{route}",
                "初判：{kind}，{asset}，{action}（{direction}），置信度 {confidence}。{claim}{route}",
                kind=term(draft.event_type),
                asset=asset_in_words(draft.asset),
                action=term(draft.action),
                direction=term(draft.direction),
                confidence=f"{draft.confidence:.2f}",
                claim=joined((_claim_in_words(claim), _parts_in_words(part)), "", ""),
                route=ROUTES[then or route],
            )
            return "triaged", what, translate_reason(reason)
        case ev.StoryChecked(checked=checked, own_page=page, earlier=earlier):
            what = STORY["unchecked" if not checked else "own_page" if page else "again" if earlier else "first"]
            return "story", what, _NOTHING
        case _:
            texts = {
                "found": fill("{n:similar past case|similar past cases} found in memory.", "记忆中有 {n} 个相似的历史案例。", n=len(event.entries)),
                "no_match": Text("Memory search found no similar past case.", "已查记忆：没有相似的历史案例。"),
                "unavailable": Text("Memory was unavailable; the case continues without it.", "记忆不可用，案例在没有历史案例的情况下继续。"),
            }  # fmt: skip
            best = [
                fill("{what} (similarity {by})", "{what}（相似度 {by}）", what=e.summary[:80], by=f"{e.similarity:.2f}")
                for e in event.entries[:3]
            ]
            return "recalled", texts[event.memory], joined(best, "; ", "；")


def _claim_in_words(claim: StatedClaim | None) -> Text:
    if claim is None:
        return _NOTHING
    amount = claim.amount and f"{claim.amount.value:,.15g} {claim.amount.unit}".strip()
    predicate = term(claim.predicate)
    parts = (claim.subject, predicate, claim.object, amount, claim.asset, claim.venue)
    claim_words = joined(dict.fromkeys(part for part in parts if part), " · ", " · ")
    how, by = term(claim.modality), ATTRIBUTIONS[claim.attribution]
    return fill(
        "It claims: {said} ({how}, {by}). ", "它声称：{said}（{how}，{by}）。", said=claim_words, how=how, by=by
    )


def _further_claim(part: MessagePart, source: str) -> Text:
    en = "Opened for claim {n} of {of} of a message from {source}, about {asset}. The first claim is case {case}."
    zh = "来自 {source} 的一条新闻含 {of} 条说法，本案例核查第 {n} 条，涉及 {asset}。第一条见案例 {case}。"
    n, of = str(part.assets.index(part.asset) + 1), str(len(part.assets))
    return fill(en, zh, n=n, of=of, source=source, asset=part.asset, case=part.first_case)


def _parts_in_words(part: MessagePart | None) -> Text:
    """Return how many claims the message makes, in its first case."""
    if part is None:
        return _NOTHING
    en, zh = "; left out beyond the limit: {assets}", "；超出上限未核查：{assets}"
    left_out = fill(en, zh, assets=", ".join(part.left_out)) if part.left_out else _NOTHING
    en = "The message makes {of} claims, each with its own case: {assets}{left_out}. "
    zh = "该新闻含 {of} 条说法，各立一个案例：{assets}{left_out}。"
    return fill(en, zh, of=str(len(part.assets)), assets=", ".join(part.assets), left_out=left_out)


_NOTHING = Text()
ATTRIBUTIONS = {
    "named": Text("from a named source", "信源具名"),
    "unnamed": Text("from an unnamed source", "信源匿名"),
    "none": Text("without a source", "未提信源"),
}
LANGUAGES = {
    "zh": Text("Chinese", "中文"),
    "en": Text("English", "英文"),
    "other": Text("another language", "其他语言"),
}
STORY = {
    "first": Text("No earlier case reports the same event.", "没有更早的案例报道同一事件。"),
    "again": Text(
        "An earlier case reports the same event. This case is analysed, too; the signal with the better evidence remains.",
        "更早的案例报道了同一事件。本案例仍单独核查，以依据更充分的信号为准。",
    ),
    "own_page": Text(
        "A listed party or authority published this on its own site, so it is analysed even if earlier cases report it.",
        "该消息出自名单内当事方或主管机构的自有网站，无论此前有何报道，均单独核查。",
    ),
    "unchecked": Text(
        "The log could not be searched for earlier cases of the same event.", "无法查询是否已有案例报道同一事件。"
    ),
}
ROUTES = {
    "deep": Text("It passes the gate: its claims will be checked.", "达到核查门槛：其说法将被核查。"),
    "single_pass": Text("It gets the single-pass analysis.", "只作单步判断。"),
    "preliminary": Text("It is not verified further.", "不再进一步核查。"),
}


def _describe_searching(event: Any) -> tuple[str, Text, Text]:
    match event:
        case ev.ToolPlanned(route="search", round=n):
            tasks = [fill("{tool}: {query}", "{tool}“{query}”", tool=term(t.tool), query=t.query) for t in event.tasks]
            en, zh = "Round {n}: planned lookups with {tools}: {tasks}", "第 {n} 轮：准备用{tools}查找：{tasks}"
            tools = joined(map(term, event.tools), ", ", "、")
            what = fill(en, zh, n=n, tools=tools, tasks=joined(tasks, "; ", "；") or event.search_keywords)
            why, by = translate_reason(event.reason), DECIDED[event.decided_by]
            return "planned", what, fill("{why} ({by})", "{why}（{by}）", why=why, by=by)
        case ev.ToolPlanned(round=n):
            what = fill("Round {n}: no further lookups.", "第 {n} 轮：没有更多要查的。", n=n)
            return "planned", what, translate_reason(event.reason)
        case ev.SearchCompleted(round=n):
            what = fill("Round {n}: {found}.", "第 {n} 轮：{found}。", n=n, found=_outcomes(event))
            return "searched", what, findings_in_words(event.findings)
        case ev.PagesScraped():
            shut = (
                fill(", {n} could not be opened", "，{n} 个打不开", n=len(event.failures))
                if event.failures
                else _NOTHING
            )
            en, zh = "{n:page|pages} opened{shut}.", "打开了 {n} 个网页{shut}。"
            pages = "; ".join(p.url for p in event.pages)
            return "scraped", fill(en, zh, n=len(event.pages), shut=shut), Text(pages, pages)
        case _:
            words = joined(event.keywords, ", ", "、") or Text("none", "无")
            if event.route == "plan":
                then = Text("another round follows", "由此再查一轮")
            else:
                then = Text("no further round", "不再查下一轮")
            what = fill("New keywords: {words}; {then}.", "新关键词：{words}；{then}。", words=words, then=then)
            return "expanded", what, translate_reason(event.reason)


DECIDED = {
    "never_search": Text("a rule: this kind of event is never searched", "规则：这类事件从不搜索"),
    "force_search": Text("a rule: this kind of event is always searched first", "规则：这类事件一律先搜索"),
    "evidence_there": Text("a rule: there is enough evidence", "规则：证据已经足够"),
    "second_look": Text("a rule: a second check always searches", "规则：再次核查一律搜索"),
    "rounds_used": Text("a rule: no rounds left", "规则：轮次已用完"),
    "disabled": Text("switched off in the settings", "设置中已关闭"),
    "model": Text("decided by the model", "由模型决定"),
}


def _outcomes(event: ev.SearchCompleted) -> Text:
    parts = [_outcome(outcome) for outcome in event.outcomes]
    parts += [
        fill("{who}: {name} {figure}", "{who} 的{name}为 {figure}", who=value.source, name=term(value.name),
             figure=f"{value.value:g} {value.unit}")
        for value in event.market
    ]  # fmt: skip
    for seen in event.observations:
        tool, n = term(seen.tool), len(seen.texts) + len(seen.entries)
        if seen.unavailable:
            why = term(seen.unavailable)
            parts.append(fill("{tool} FAILED ({why})", "{tool}失败（{why}）", tool=tool, why=why))
        else:
            parts.append(fill("{tool}: {n:result|results}", "{tool}：{n} 条结果", tool=tool, n=n))
    return joined(parts, "; ", "；") or Text("no provider was called", "未调用任何服务")


def _outcome(outcome: ev.ProviderOutcome) -> Text:
    topic = fill(" ({topic})", "（{topic}）", topic=term(outcome.topic)) if outcome.topic else _NOTHING
    of: dict[str, Any] = {"who": outcome.provider, "topic": topic, "query": outcome.query}
    if outcome.failure is not None:
        of |= {"kind": term(outcome.failure.kind), "said": outcome.failure.message}
        return fill(
            "{who}{topic} FAILED for “{query}” ({kind}: {said})",
            "{who}{topic} 未能查询“{query}”（{kind}：{said}）",
            **of,
        )
    cached = Text(", from the cache", "，来自缓存") if outcome.cached else _NOTHING
    en, zh = (
        "{who}{topic} returned {n:hit|hits} for “{query}”{cached}",
        "{who}{topic} 对“{query}”返回 {n} 条结果{cached}",
    )
    return fill(en, zh, n=outcome.hits, cached=cached, **of)


def _describe_ending(event: Any) -> tuple[str, Text, Text]:
    match event:
        case ev.EvidenceCritiqued():
            return _describe_critique(event)
        case ev.SignalSynthesized(signal=s):
            en = "Signal: {action} {asset} with confidence {confidence}; {verdict}, from the {path}."
            zh = "信号：{action} {asset}，置信度 {confidence}；{verdict}，来自{path}。"
            told_of = {
                "action": _action_of(s),
                "asset": asset_in_words(s.asset),
                "verdict": verdict_in_words(s),
                "path": PATHS[event.path],
            }
            return "ended", fill(en, zh, confidence=f"{s.confidence:.2f}", **told_of), translate_reason(s.notes)
        case ev.CaseDropped(reason="unchanged", detail=detail):
            what = Text("The second check did not change the signal.", "再次核查后，信号维持不变。")
            return "ended", what, translate_reason(detail)
        case ev.CaseDropped(duplicate_of=first):
            of = fill(" (the first is case {case})", "（首个案例是 {case}）", case=first) if first else _NOTHING
            what = fill(
                "Dropped without a signal: {why}{of}.", "舍弃，没有信号：{why}{of}。", why=term(event.reason), of=of
            )
            return "ended", what, translate_reason(event.detail)
        case ev.CaseFailed(failed_step=""):  # no step failed: a person ended it
            return (
                "ended",
                Text("Ended by request; there is no signal.", "应要求结束，没有信号。"),
                as_written(event.reason),
            )
        case ev.CaseFailed(failed_step=step, attempts=n):
            en, zh = (
                "Failed at step {step} after {n:attempt|attempts}; there is no signal.",
                "步骤“{step}”尝试 {n} 次后失败，没有信号。",
            )
            return "ended", fill(en, zh, step=term(step), n=n), as_written(event.reason)
        case _:
            en, zh = (
                "The deep path failed at {step}; the single-pass analysis takes over.",
                "深入核查在“{step}”处失败，改为单步判断。",
            )
            return "degraded", fill(en, zh, step=term(event.failed_step)), term(event.reason)


def _action_of(signal: Signal) -> Text:
    """Return the action as part of a sentence, in which “观望 · 做空” would read as two orders."""
    if signal.action != "observe" or signal.direction == "neutral":
        return action_in_words(signal)
    return fill("observe · {lean}", "观望（若属实则{lean}）", lean=term(signal.direction))


def _describe_critique(event: ev.EvidenceCritiqued) -> tuple[str, Text, Text]:
    contradictions = as_written("; ".join(event.contradictions))
    if event.stances is None and not event.claims:  # nobody gave a verdict
        return "critiqued", readers_in_words(event), contradictions
    en, zh = "Evidence review: {says}; the news is {age}. {read}", "证据评估：{says}；新闻{age}。{read}"
    says, age = CRITIC_SAYS[event.verdict], TIMELINESS[event.timeliness]
    return "critiqued", fill(en, zh, says=says, age=age, read=readers_in_words(event)), contradictions


TIMELINESS = {
    "fresh": Text("fresh", "是新的"),
    "stale": Text("old, reported again", "是旧闻重提"),
    "unknown": Text("of unknown age", "时间不明"),
}
PATHS = {
    "deep": Text("deep path", "深入核查"),
    "single_pass": Text("single-pass analysis", "单步判断"),
    "preliminary": Text("first judgement only", "初判"),
    "degraded": Text("single-pass analysis after the deep path failed", "深入核查失败后的单步判断"),
}
FOLLOWS = {
    "retry": Text("the worker retries it", "将重试"),
    "degrade": Text("the case degrades", "案例降级处理"),
    "give_up": Text("the case fails", "案例失败"),
}


def _describe_aside(event: Any) -> tuple[str, Text, Text]:
    match event:
        case ev.EffectCompleted():
            return _describe_reply(event)
        case ev.StepFailed(step=step, attempt=n, failure=failure):
            at = fill(" at {at}", "（{at}）", at=f"{event.retry_at:%H:%M:%S}") if event.retry_at else _NOTHING
            en, zh = "{step} failed (attempt {n}): {follows}{at}.", "{step}失败（第 {n} 次）：{follows}{at}。"
            what = fill(en, zh, step=term(step), n=n, follows=FOLLOWS[event.outcome], at=at)
            return "recovering", what, _failure(failure)
        case ev.StepStarted(step=step, handed_back=True):
            en = "The worker released {step} while it ran alone. The next worker runs it alone again."
            zh = "工作进程释放了单独运行的“{step}”，下一个进程会再次单独运行。"
            return "recovering", fill(en, zh, step=term(step)), _NOTHING
        case ev.StepStarted(step=step, crashes=n):
            en, zh = "{step} runs alone after {n:crash|crashes} at this step.", "“{step}”单独运行：此处曾崩溃 {n} 次。"
            return "recovering", fill(en, zh, step=term(step), n=n), _NOTHING
        case ev.RetractionFound(of_case=case, kind=kind):
            en, zh = "The signal of case {case} is {kind}.", "案例 {case} 的信号{kind}。"
            return "retracting", fill(en, zh, case=case, kind=term(kind)), translate_reason(event.reason)
        case ev.StoryCorroborated(of_case=case, verdict=verdict):
            en = "It reports the same event as case {case}, whose signal is raised to {verdict} if it was lower."
            zh = "它与案例 {case} 报道同一事件；该信号若此前低于“{verdict}”，现升为“{verdict}”。"
            return "corroborating", fill(en, zh, case=case, verdict=term(verdict)), translate_reason(event.reason)
        case ev.CancelRequested(requested_by=who):
            return (
                "cancelled",
                fill("{who} requested to end the case.", "{who} 要求结束案例。", who=who),
                as_written(event.reason),
            )
        case _:
            name = type(event).__name__
            return "other", Text(name, name), _NOTHING


def _describe_reply(event: ev.EffectCompleted) -> tuple[str, Text, Text]:
    step, failed = term(event.step), [c.reply for c in event.calls if isinstance(c.reply, Failure)]
    if failed and failed[-1].kind == "cut" and event.calls[-1].reply is failed[-1]:
        en, zh = "{step}: the model's reply was cut at the token limit.", "{step}：模型的回复因词元上限被截断。"
        return "recovering", fill(en, zh, step=step), as_written(failed[-1].message)
    kinds = joined((term(c.kind) for c in event.calls), ", ", "、") or term("call")
    if failed and len(failed) == len(event.calls):
        return (
            "recovering",
            fill("{step}: the call failed ({kinds}).", "{step}：调用失败（{kinds}）。", step=step, kinds=kinds),
            _failure(failed[-1]),
        )
    return (
        "asking",
        fill("{step}: response received ({kinds}).", "{step}：收到响应（{kinds}）。", step=step, kinds=kinds),
        _NOTHING,
    )


def _failure(failure: Failure) -> Text:
    return fill("{kind}: {said}", "{kind}：{said}", kind=term(failure.kind), said=failure.message)
