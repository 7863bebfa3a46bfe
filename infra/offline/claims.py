"""The claim as the offline model states it beside its judgement: parts of a news text by words, zh and en."""

from __future__ import annotations

import re
from typing import Any

from infra.offline import lexicon as lx

_NUMBER = r"\d[\d,]*(?:\.\d+)?"
SCALES = {
    "trillion": 1e12, "billion": 1e9, "bn": 1e9, "b": 1e9, "million": 1e6, "m": 1e6, "k": 1e3,
    "万亿": 1e12, "亿": 1e8, "千万": 1e7, "百万": 1e6, "万": 1e4,
}  # fmt: skip
_SCALE = r"trillion|billion|million|bn\b|[bmk]\b|万亿|亿|千万|百万|万"
_PART = re.compile(rf"({_NUMBER})\s?({_SCALE})?", re.IGNORECASE)
_CLOCKS = "AM|PM|UTC|GMT|[ECMP][SD]?T|CES?T|BST|[KJI]ST|HKT|SGT"
"""What follows a time of the day, which is no amount."""
_FIGURE = re.compile(
    rf"(?P<sign>[$€£¥])?\s?(?<!\d)(?<!\d[:：.,])(?P<number>{_NUMBER}(?:\s?(?:{_SCALE}))?(?:\s?{_NUMBER}\s?[亿万])*)(?![:：]\d)"
    rf"\s?(?:枚|个)?\s?(?P<unit>(?-i:(?!(?:{_CLOCKS})\b)[a-z]?[A-Z]{{2,6}})\b|美元|美金|日元|港元|欧元|人民币|韩元|比特币|以太坊)?",
    re.IGNORECASE,
)
_MOST = 1e24
_CURRENCY = {"$": "USD", "€": "EUR", "£": "GBP", "¥": "JPY"}
_FIRST_CLAUSE = re.compile(r"[,,;;。]\s?|\.\s")


def stated(text: str, kind: str, asset: str, entity: str) -> dict[str, Any]:
    """Return the claim of one news text, in the schema of the triage prompt."""
    venue = next((e for e in lx.EXCHANGES if kind == "listing" and e.lower() in text.lower()), "")
    return {
        "subject": entity,
        "predicate": next((p for p, words in lx.PREDICATE_WORDS.get(kind, ()) if words.search(text)), "other"),
        "object": "",
        "amount": _amount(text),
        "asset": "" if asset == "UNKNOWN" else asset,
        "venue": venue,
        "modality": modality_of(text),
        "attribution": "unnamed" if lx.UNNAMED.search(text) else "named" if lx.NAMED.search(text) else "none",
    }


def modality_of(text: str) -> str:
    """Return how the text puts its claim; a plan counts where the first clause tells it."""
    if lx.CORRECTS.search(text):
        return "corrected"
    if lx.DENIES.search(lx.NO_DENIAL.sub(" ", text)):
        return "denied"
    if lx.HEDGES.search(text):
        return "rumoured"
    return "planned" if lx.PLANS.search(_FIRST_CLAUSE.split(text)[0]) else "asserted"


def _amount(text: str) -> dict[str, Any] | None:
    """Return the first figure with a currency or a coin beside it."""
    match = next((m for m in _FIGURE.finditer(text) if m["sign"] or m["unit"]), None)
    if match is None:
        return None
    parts = _PART.findall(match["number"])
    value = sum(float(number.replace(",", "")) * SCALES.get(scale.lower(), 1.0) for number, scale in parts)
    if value > _MOST:
        return None
    return {"value": value, "unit": match["unit"] if not match["sign"] else _CURRENCY[match["sign"]]}
