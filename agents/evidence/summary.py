"""The summary of a signal and the claim inside it, in English and in Chinese.

The summary is one sentence: the verdict, who says so, then the claim. Templates make it from the signal's own fields, so
that publish and the audit derive the sentence of a later revision again. Only a confirmed or likely claim is stated as
fact; any other is reported as a claim.

The claim is triage's sentence, or a template filled with the stated parts. The template is used if triage wrote nothing in
a language, wrote it in another one, or if the text steers models. Then it consists of closed words alone (names of the
tables, a predicate of the list, a ticker, a figure).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from agents.core.answers import one_line
from agents.evidence.claim import PREDICATES
from agents.evidence.compiled import Compiled
from agents.evidence.entities import AUTHORITIES, chinese_name
from agents.evidence.verdict import Measured
from agents.text.injection import steers_model
from agents.text.matching import has_cjk
from agents.text.wording import Language, Text, closed_up, fill, joined, term
from schemas.evidence import ReadStance
from schemas.signals import ACTED_ON, NO_ASSET, WITHDRAWN, ClaimAmount, Draft, Signal, SignalEvidence, StatedClaim

MAX_CLAIM = 300
MOST_WORDS = 3
"""Maximum words of a name in Latin letters."""
_HAN, _OTHER_SCRIPT = re.compile(r"[\u4e00-\u9fff]"), re.compile(r"[\u3040-\u30ff\uac00-\ud7af]")
_KNOWN = frozenset(word for words in PREDICATES.values() for word in words) - {"scams"}
"""Predicates with a template. A scam often names the party that it imitates, so ``scams`` has none."""
_OF_AUTHORITIES = frozenset(PREDICATES["regulation"]) - {"files", "settles", "proposes"}
_WITHOUT_OBJECT = frozenset(
    {"hacked", "leaks_data", "account_taken_over", "recovers_funds", "reimburses", "depegs", "recovers_peg", "halts_redemption",
     "liquidated", "bankrupt", "halts_withdrawals", "resumes_withdrawals", "goes_public", "raises_rate", "cuts_rate", "holds_rate",
     "opens_claims", "resigns", "lays_off", "raises"}
)  # fmt: skip
_OF_ASSET = frozenset(
    {"lists", "delists", "opens_trading", "halts_trading", "buys", "sells", "transfers", "withdraws", "mints", "burns", "holds",
     "unlocks", "airdrops", "accepts_payment"}
)  # fmt: skip
"""Predicates whose object is the claim's asset if no object is stated."""
_VERBS = {
    "opens_trading": Text("opens trading of {}", "开放 {} 交易"),
    "halts_trading": Text("halts trading of {}", "暂停 {} 交易"),
    "files": Text("files for {}", "提交 {} 申请"),
    "partners": Text("partners with {}", "与 {} 合作"),
    "invests": Text("invests in {}", "投资 {}"),
    "accepts_payment": Text("accepts payment in {}", "接受 {} 付款"),
    "hacked": Text("was hacked", "遭攻击"),
    "account_taken_over": Text("lost control of its account", "账号被盗"),
    "liquidated": Text("was liquidated", "被清算"),
    "bankrupt": Text("went bankrupt", "破产"),
    "depegs": Text("lost its peg", "脱锚"),
    "raises": Text("raises funds", "融资"),
}
"""Predicates whose wording differs from “word object”."""
_RUMOUR = Text("rumour", "传闻")
_STEMS = {"was": "be", "lost": "lose", "went": "go"}
_UNITS = {
    "USD": "美元", "CNY": "元", "JPY": "日元", "HKD": "港元", "EUR": "欧元", "KRW": "韩元", "GBP": "英镑",
}  # fmt: skip
_CURRENCIES = {zh: en for en, zh in _UNITS.items()} | {
    "$": "USD",
    "人民币": "CNY",
    "美金": "USD",
    "€": "EUR",
    "£": "GBP",
}


def claim_text(
    draft: Draft, stated: StatedClaim | None, language: str, tables: Compiled, *, steers: bool = False
) -> Text:
    """Return the claim in both languages; "" in a language without a sentence of triage and without enough parts.

    ``language``: language of the news and of ``draft.summary``. ``steers``: the news steers models.
    """
    written = {"zh": draft.summary_zh, "en": draft.summary_en}
    if language in written:
        written[language] = written[language] or draft.summary
    by_parts = _by_parts(draft, stated or StatedClaim(subject=draft.entity or ""), tables, closed=steers)

    def said(of: Language) -> str:
        text = _one_sentence(_LEAD.sub("", one_line(written[of] or "", MAX_CLAIM)))
        usable = text and not steers and _is_in(text, of) and not steers_model(text)
        return text if usable else by_parts.of(of)

    return Text(said("en"), said("zh"))


def _one_sentence(text: str) -> str:
    """Return the text as one sentence that can follow “claim that”, without its final mark."""
    joined_up = _END.sub("; ", _END_ZH.sub("；", text))
    return joined_up.rstrip("。.!！?？;； ")


_LEAD = re.compile(
    r"\A[\s【\[]*(?:快讯|突发|重磅|最新(?:消息)?|breaking(?: news)?|just in|news ?flash)\s*(?:[:：|｜丨】\]]\s*)+",
    re.IGNORECASE,
)
"""A newsroom's word before the claim: “有消息称快讯：…” is no sentence."""
_END = re.compile(
    r"(?:(?<=[a-z0-9%)”\"'’])|(?<=[A-Z]{2}))(?<!\bInc)(?<!\bCorp)(?<!\bLtd)(?<!\bCo)(?<!\bNo)(?<!\bvs)[.!?]+[”\"'’]?\s+(?=\S)"
)
_END_ZH = re.compile(r"[。！？]+\s*(?=\S)")
_ESCAPE = re.compile(r"[.!?…][^\w\s]*\s|…|[。！？．｡‼⁇]|[\u4e00-\u9fff][.!?]|\s[-–—―]+\s|[—―]{2}")
_MARKS = re.compile('["“”„‟«»「」『』＂]')


def behind(text: str) -> str:
    """Return a claim that can follow “claim that”: in quotation marks if the sentence might end before its last word.

    “Acme sued in the U.S. Binance has confirmed it” may be one sentence or two; only a reader can decide.
    """
    return f"“{_MARKS.sub('', text)}”" if _ESCAPE.search(text) else text


def _is_in(text: str, language: Language) -> bool:
    han = len(_HAN.findall(text))
    foreign = len(_OTHER_SCRIPT.findall(text))
    return han > 0 and foreign == 0 if language == "zh" else (han + foreign) * 10 <= len(text)


def _by_parts(draft: Draft, stated: StatedClaim, tables: Compiled, *, closed: bool) -> Text:
    """Return the sentence made of the stated parts; "" in a language without a name for the subject.

    A denial or a correction gives "": its parts do not say whether they are what is denied. So does an authority's act by
    an entity that is no authority in the tables.
    """
    if stated.predicate not in _KNOWN or stated.modality in {"denied", "corrected"}:
        return Text()
    known = tables.entities.exactly(stated.subject)
    if stated.predicate in _OF_AUTHORITIES and known and known[0].kind not in AUTHORITIES:
        return Text()
    subject, of = (_name(word, tables, closed=closed) for word in (stated.subject, stated.object))
    amount = _amount(stated.amount, draft, tables)
    asset = "" if draft.asset == NO_ASSET else draft.asset
    takes = stated.predicate not in _WITHOUT_OBJECT
    modality = _RUMOUR if stated.modality == "rumoured" else Text()

    def said(language: Language) -> str:
        what = (of.of(language) or (asset if stated.predicate in _OF_ASSET else "")) if takes else ""
        # Without an object the sentence names at least the asset.
        concerns = Text(f"concerning {asset}", f"涉及 {asset}") if takes and asset and not what else Text()
        details = joined((concerns, amount, modality), "; ", "；")
        clause = _clause(subject.of(language), stated.predicate, what, language, planned=stated.modality == "planned")
        return (
            fill("{clause} ({details})", "{clause}（{details}）", clause=clause, details=details).of(language)
            if clause and details
            else clause
        )

    return closed_up(Text(said("en"), said("zh")))


def _clause(who: str, predicate: str, what: str, language: Language, *, planned: bool) -> str:
    verb = _VERBS.get(predicate, term(predicate))
    if "{}" in verb.en and not what:
        verb = term(predicate)
    phrase = (_future(verb) if planned else verb).of(language)
    words = phrase.replace("{}", what) if "{}" in phrase else f"{phrase} {what}"
    return f"{who} {words}".strip() if who else ""


def _future(verb: Text) -> Text:
    """Return what is planned: “will list” for “lists”."""
    first, space, rest = verb.en.partition(" ")
    stem = _STEMS.get(first) or first[: -2 if first.endswith(("sses", "shes", "ches", "oes")) else -1]
    return Text(f"will {stem}{space}{rest}", f"将{verb.zh}")


def _name(word: str, tables: Compiled, *, closed: bool) -> Text:
    """Return a name in each language; "" where it exists only in the other language's script.

    ``closed``: only names of the tables.
    """
    plain = one_line(word, 80)
    chinese = has_cjk(plain)
    if known := tables.entities.exactly(plain):
        return Text(known[0].name if chinese else plain, plain if chinese else chinese_name(known[0]) or plain)
    ticker = tables.ticker_of(plain)
    if ticker in tables.asset_names:
        return Text(ticker, ticker)
    if closed or not plain or plain.lower() in tables.name_stopwords | tables.common_words or steers_model(plain):
        return Text()
    # A phrase in Latin letters is not a name and does not belong in a Chinese sentence.
    return Text("" if chinese else plain, plain if chinese or len(plain.split()) <= MOST_WORDS else "")


def _amount(amount: ClaimAmount | None, draft: Draft, tables: Compiled) -> Text:
    """Return a figure with a unit known in both languages; empty for any other unit, which is a word from outside."""
    if amount is None:
        return Text()
    unit = _CURRENCIES.get(amount.unit, amount.unit.upper())
    if unit not in _UNITS and unit != draft.asset and unit not in tables.asset_names:
        return Text()
    figure = plainly(amount.value)
    return Text(f"{figure.en} {unit}", f"{figure.zh}{_UNITS.get(unit, f' {unit}')}")


def plainly(figure: float) -> Text:
    """Return a figure with its scale, such as “3 million” and “300 万”."""
    return Text(_scaled(figure, _EN), _scaled(figure, _ZH))


_EN = ((1e12, " trillion"), (1e9, " billion"), (1e6, " million"))
_ZH = ((1e12, " 万亿"), (1e8, " 亿"), (1e4, " 万"))


def _scaled(value: float, scales: tuple[tuple[float, str], ...]) -> str:
    of, name = next(((of, name) for of, name in scales if abs(value) >= of), (1.0, ""))
    return f"{round(value / of, 2):,.10g}{name}"


MOST_NAMED = 3
"""Maximum parties and authorities that are named. All their pages are in the evidence."""


class SummaryContext(msgspec.Struct, frozen=True, kw_only=True):
    """Facts for a summary that are in no field of the signal.

    ``dated_later``: number of pages dropped because they are dated after the news. ``worded``: the claim in the words of the
    synthesis, used only for a confirmed claim.
    """

    measured: Measured | None = None
    dated_later: int = 0
    worded: Text = Text()


NO_CONTEXT = SummaryContext()
HEADS = {
    "likely": Text("Likely", "很可能"),
    "unconfirmed": Text("Unconfirmed", "未证实"),
    "stale": Text("Old news", "旧闻"),
    "disputed": Text("Disputed", "有争议"),
    "refuted": Text("Refuted", "已被否认"),
    "unchecked": Text("Not checked", "未核查"),
}
_WHY_UNCHECKED = {
    "gate": Text("routine news, which is not searched for", "常规消息，不作核查"),
    "disabled": Text("search is off", "搜索已关闭"),
    "not_planned": Text("no search was planned", "未安排搜索"),
    "budget": Text("budget", "预算不足"),
    "language": Text("no search in its language answered", "该语言的搜索未响应"),
    "search_failed": Text("search failed", "搜索失败"),
    "degraded": Text("analysis failed", "深入核查失败"),
}


def with_summary(signal: Signal, context: SummaryContext = NO_CONTEXT) -> Signal:
    """Return the signal with the summary derived from its other fields.

    A signal from before claims were stored separately keeps its summary, whose parts are unknown.
    """
    if signal.claim_en is UNSET or signal.claim_zh is UNSET:
        return signal
    summary = summary_of(signal, context)
    return replace(
        signal,
        summary=summary.of("zh" if signal.language == "zh" else "en"),
        summary_zh=summary.zh,
        summary_en=summary.en,
    )


def summary_of(signal: Signal, context: SummaryContext = NO_CONTEXT) -> Text:
    """Return the summary of a signal in both languages."""
    head, asides = _head(signal, context), joined(_asides(signal, context), "; ", "；")
    told_head = fill("{head} ({asides})", "{head}（{asides}）", head=head, asides=asides) if asides else head
    return fill("{head}: {claim}", "{head}：{claim}", head=closed_up(told_head), claim=_claim(signal, context))


def _claim(signal: Signal, context: SummaryContext) -> Text:
    worded = context.worded if signal.verdict == "confirmed" and signal.stage not in WITHDRAWN else Text()
    en, zh = worded.en or signal.claim_en or "", worded.zh or signal.claim_zh or ""
    if signal.verdict not in ACTED_ON or signal.stage in WITHDRAWN:
        en, zh = behind(en), behind(zh)
        en, zh = en and f"claim that {en}", zh and f"有消息称{' ' * zh[0].isascii()}{zh}"
    kind = term(signal.event_type)
    if signal.asset == NO_ASSET:
        about = fill("claim of the type “{kind}”", "一则{kind}消息", kind=kind)
    else:
        about = fill("claim about {asset} ({kind})", "关于 {asset} 的{kind}消息", asset=signal.asset, kind=kind)
    return Text(en or about.en, zh or about.zh)


def _head(signal: Signal, context: SummaryContext) -> Text:
    denied_by = speakers(signal.evidence, "denies")
    measured = Text("measured prices", "实测价格")
    match signal.stage, signal.verdict:
        case "retracted", "refuted":
            who = denied_by or Text("a later report", "后续消息")
            return fill("Retracted, denied by {who}", "已撤回，{who} 否认", who=who)
        case "retracted", _:
            return Text("Retracted before it was checked", "已撤回，未完成核查")
        case "superseded", _:
            return Text("Superseded by another report", "已被另一报道取代")
        case _, "confirmed":
            official = speakers(signal.evidence, "supports", own=True)
            reported = Text() if official else speakers(signal.evidence, "supports")
            count = signal.supporting_sources or 0
            sources = fill("{n:source|sources}", "{n} 个来源", n=count) if count else Text("the evidence", "证据")
            by = official or (
                measured if context.measured == "confirms" else reported if count < 2 and reported else sources
            )
            return fill("Confirmed by {by}", "已获 {by} 证实", by=by)
        case _, "disputed" if denied_by:
            return fill("Disputed, denied by {who}", "有争议，{who} 否认", who=denied_by)
        case _, "refuted" if context.measured == "contradicts":
            return fill("Contradicted by {by}", "与{by}不符", by=measured)
        case _, "refuted" if denied_by:
            return fill("Denied by {who}", "已被 {who} 否认", who=denied_by)
        case _, "unchecked" if signal.stage == "preliminary":
            return Text("Not checked yet", "尚未核查")
        case _, verdict:
            return HEADS[verdict or "unchecked"]


def speakers(evidence: tuple[SignalEvidence, ...], stance: ReadStance, *, own: bool = False) -> Text:
    """Return the parties and authorities with this stance, on their own pages or else as reported; empty if there are none.

    ``own``: only on their own pages.
    """
    speaking = [e for e in evidence if e.stance == stance and e.speaker is not None]
    themselves = [e for e in speaking if e.official]
    names = list(
        dict.fromkeys(Text(e.speaker, e.speaker_zh or e.speaker) for e in (themselves or speaking) if e.speaker)
    )
    who = joined(names[:MOST_NAMED], " and ", " 与 ")
    if themselves:
        return who or Text("an official page", "官方网页")
    if own or not speaking:
        return Text()
    return fill("{who}, as reported", "{who}（据报道）", who=who or Text("the party itself", "当事方"))


def _asides(signal: Signal, context: SummaryContext) -> Iterator[Text]:
    if signal.stage in WITHDRAWN:
        return
    official, sources = speakers(signal.evidence, "supports", own=True), signal.supporting_sources or 0
    if signal.verdict == "likely" and official:
        yield fill("{who} says so", "{who} 称属实", who=official)
    elif signal.verdict == "likely":
        yield fill("{n:source|sources}", "{n} 个来源", n=sources)
    elif signal.verdict == "unconfirmed" and sources:
        yield fill("only {n:source|sources}", "仅 {n} 个来源", n=sources)
    elif signal.verdict in {"disputed", "refuted"} and not speakers(signal.evidence, "denies"):
        if denying := sum(e.stance == "denies" for e in signal.evidence):
            yield fill("denied by {n:page|pages}", "{n} 个网页否认", n=denying)
    elif signal.verdict == "unchecked":
        reason, _, failure = (signal.unchecked_reason or "").partition(":")
        if reason in _WHY_UNCHECKED:
            yield joined((_WHY_UNCHECKED[reason], term(failure)), ": ", "：")
    if "amount_differs" in signal.risk_flags:
        # The party's own figure before anybody else's.
        given = sorted((e for e in signal.evidence if e.figure is not None), key=lambda e: not e.official)
        figures = (plainly(e.figure) for e in given[:1] if e.figure is not None)
        yield joined((Text("reported with another amount", "报道的金额不同"), *figures), ": ", "：")
    if context.dated_later and signal.verdict != "confirmed":
        en, zh = "{n:page|pages} dated after the news left out", "{n} 个网页日期晚于新闻，未采用"
        yield fill(en, zh, n=context.dated_later)
