"""The claim of a signal in English and in Chinese: as triage wrote it, or by template from the parts that it stated.

A template takes over where triage wrote nothing in a language, wrote it in another one, or where the text steers models:
then it is made of closed words alone (names of the tables, a predicate of the list, a ticker, a figure).
"""

from __future__ import annotations

import re

from agents.core.answers import one_line
from agents.evidence.claim import PREDICATES
from agents.evidence.compiled import Compiled
from agents.evidence.entities import AUTHORITIES
from agents.text.injection import steers_model
from agents.text.matching import has_cjk
from agents.text.wording import Language, Told, closed_up, joined, term, told
from schemas.config import Entity
from schemas.signals import NO_ASSET, ClaimAmount, Draft, StatedClaim

MAX_CLAIM = 300
MOST_WORDS = 3
"""Words of a name in Latin letters."""
_HAN, _OTHER_SCRIPT = re.compile(r"[\u4e00-\u9fff]"), re.compile(r"[\u3040-\u30ff\uac00-\ud7af]")
_KNOWN = frozenset(word for words in PREDICATES.values() for word in words) - {"scams"}
"""Predicates that a template tells. Whom a scam names is often whom it imitates."""
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
"""Predicates whose object is the claim's asset where none is stated."""
_VERBS = {
    "opens_trading": Told("opens trading of {}", "开放 {} 交易"),
    "halts_trading": Told("halts trading of {}", "暂停 {} 交易"),
    "files": Told("files for {}", "提交 {} 申请"),
    "partners": Told("partners with {}", "与 {} 合作"),
    "invests": Told("invests in {}", "投资 {}"),
    "accepts_payment": Told("accepts payment in {}", "接受 {} 付款"),
    "hacked": Told("was hacked", "遭攻击"),
    "account_taken_over": Told("lost control of its account", "账号被盗"),
    "liquidated": Told("was liquidated", "被清算"),
    "bankrupt": Told("went bankrupt", "破产"),
    "depegs": Told("lost its peg", "脱锚"),
    "raises": Told("raises funds", "融资"),
}
"""Predicates that read otherwise than as their word, with the object after it."""
_MODALITY = {
    "planned": Told("planned", "计划中"),
    "rumoured": Told("rumour", "传闻"),
}
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


def claim_told(
    draft: Draft, stated: StatedClaim | None, language: str, tables: Compiled, *, steers: bool = False
) -> Told:
    """Return the claim in both languages; "" in one where nobody said it and too little is stated for a template.

    ``language``: that of the news, which ``draft.summary`` is in. ``steers``: the news steers models.
    """
    written = {"zh": draft.summary_zh, "en": draft.summary_en}
    if language in written:
        written[language] = written[language] or draft.summary
    by_parts = _by_parts(draft, stated or StatedClaim(subject=draft.entity or ""), tables, closed=steers)

    def said(of: Language) -> str:
        text = _one_sentence(one_line(written[of] or "", MAX_CLAIM))
        usable = text and not steers and _is_in(text, of) and not steers_model(text)
        return text if usable else by_parts.of(of)

    return Told(said("en"), said("zh"))


def _one_sentence(text: str) -> str:
    """Return the text as one sentence, all of which stands behind “claim that”, without its last mark."""
    joined_up = _END.sub("; ", _END_ZH.sub("；", text))
    return joined_up.rstrip("。.!！?？;； ")


_END = re.compile(
    r"(?:(?<=[a-z0-9%)”\"'’])|(?<=[A-Z]{2}))(?<!\bInc)(?<!\bCorp)(?<!\bLtd)(?<!\bCo)(?<!\bNo)(?<!\bvs)[.!?]+[”\"'’]?\s+(?=\S)"
)
_END_ZH = re.compile(r"[。！？]+\s*(?=\S)")
_ESCAPE = re.compile(r"[.!?…][^\w\s]*\s|…|[。！？．｡‼⁇]|[\u4e00-\u9fff][.!?]|\s[-–—―]+\s|[—―]{2}")
_MARKS = re.compile('["“”„‟«»「」『』＂]')


def behind(text: str) -> str:
    """Return a claim as it stands behind “claim that”: in quotation marks if it may end before its last word.

    “Acme sued in the U.S. Binance has confirmed it” may be one sentence or two, which only its reader can tell.
    """
    return f"“{_MARKS.sub('', text)}”" if _ESCAPE.search(text) else text


def _is_in(text: str, language: Language) -> bool:
    han = len(_HAN.findall(text))
    foreign = len(_OTHER_SCRIPT.findall(text))
    return han > 0 and foreign == 0 if language == "zh" else (han + foreign) * 10 <= len(text)


def _by_parts(draft: Draft, stated: StatedClaim, tables: Compiled, *, closed: bool) -> Told:
    """Return what the stated parts say; "" in a language that has no name for whom the claim is about.

    Nothing of a denial or a correction: its parts do not say whether they are what is denied. Nothing of an authority's act
    by whom the tables know for none.
    """
    if stated.predicate not in _KNOWN or stated.modality in {"denied", "corrected"}:
        return Told()
    known = tables.entities.exactly(stated.subject)
    if stated.predicate in _OF_AUTHORITIES and known and known[0].kind not in AUTHORITIES:
        return Told()
    subject, of = (_name(word, tables, closed=closed) for word in (stated.subject, stated.object))
    amount = _amount(stated.amount, draft, tables)
    asset = "" if draft.asset == NO_ASSET else draft.asset
    takes = stated.predicate not in _WITHOUT_OBJECT
    modality = _MODALITY.get(stated.modality, Told())

    def said(language: Language) -> str:
        what = (of.of(language) or (asset if stated.predicate in _OF_ASSET else "")) if takes else ""
        # Without its object the sentence says at least what the matter concerns.
        concerns = Told(f"concerning {asset}", f"涉及 {asset}") if takes and asset and not what else Told()
        beside = joined((concerns, amount, modality), "; ", "；")
        clause = _clause(subject.of(language), stated.predicate, what, language)
        return (
            told("{clause} ({beside})", "{clause}（{beside}）", clause=clause, beside=beside).of(language)
            if clause and beside
            else clause
        )

    return closed_up(Told(said("en"), said("zh")))


def _clause(who: str, predicate: str, what: str, language: Language) -> str:
    verb = _VERBS.get(predicate, term(predicate)).of(language)
    if "{}" in verb and not what:
        verb = term(predicate).of(language)
    words = verb.replace("{}", what) if "{}" in verb else f"{verb} {what}"
    return f"{who} {words}".strip() if who else ""


def _name(word: str, tables: Compiled, *, closed: bool) -> Told:
    """Return a name as each language writes it; "" where it could only be shown in the other one's script.

    ``closed``: names of the tables alone.
    """
    plain = one_line(word, 80)
    chinese = has_cjk(plain)
    if known := tables.entities.exactly(plain):
        return Told(known[0].name if chinese else plain, plain if chinese else chinese_name(known[0]) or plain)
    ticker = tables.ticker_of(plain)
    if ticker in tables.asset_names:
        return Told(ticker, ticker)
    if closed or not plain or plain.lower() in tables.name_stopwords | tables.common_words or steers_model(plain):
        return Told()
    # A phrase in Latin letters is no name, and no part of a Chinese sentence.
    return Told("" if chinese else plain, plain if chinese or len(plain.split()) <= MOST_WORDS else "")


def chinese_name(entity: Entity) -> str | None:
    """Return the first name of an entity that is all Chinese."""
    return next((a for a in entity.aliases if a and not _HAN.sub("", a)), None)


def _amount(amount: ClaimAmount | None, draft: Draft, tables: Compiled) -> Told:
    """Return a figure with a unit that both languages know; empty for any other unit, which is a word from outside."""
    if amount is None:
        return Told()
    unit = _CURRENCIES.get(amount.unit, amount.unit.upper())
    if unit not in _UNITS and unit != draft.asset and unit not in tables.asset_names:
        return Told()
    figure = plainly(amount.value)
    return Told(f"{figure.en} {unit}", f"{figure.zh}{_UNITS.get(unit, f' {unit}')}")


def plainly(figure: float) -> Told:
    """Return a figure with its scale, such as “3 million” and “300 万”."""
    return Told(_scaled(figure, _EN), _scaled(figure, _ZH))


_EN = ((1e12, " trillion"), (1e9, " billion"), (1e6, " million"))
_ZH = ((1e12, " 万亿"), (1e8, " 亿"), (1e4, " 万"))


def _scaled(value: float, scales: tuple[tuple[float, str], ...]) -> str:
    of, name = next(((of, name) for of, name in scales if abs(value) >= of), (1.0, ""))
    return f"{round(value / of, 2):,.10g}{name}"
