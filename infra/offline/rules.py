"""The offline model's judgement: rules over a text's words, zh and en. They read no clock, no label, no case id."""

from __future__ import annotations

import re
from typing import Any

from infra.offline import lexicon as lx
from infra.offline.claims import stated

TOP_CONFIDENCE = 0.79
"""Upper limit of the confidence of rules over words alone."""
_NUMBER = re.compile(r"\d[\d,.]*")
_BIG = re.compile(r"\$?\s?\d[\d,.]*\s?(?:B\b|bn|billion|亿)|\$?\s?[1-9]\d{2}[\d,.]*\s?(?:M\b|million)", re.IGNORECASE)
_TICKER = re.compile(r"(?<![A-Za-z])\$?([A-Z]{2,6})(?![A-Za-z])")
_LISTED = re.compile(
    r"(?:\b(?:[Dd]e)?[Ll]ist(?:s|ed|ing)?|上线|上币|上架|下架)\s*(?:the\s+|代币\s*)?\$?([A-Z][A-Z0-9]{1,9})\b(?!\s*(?:ETF|Trust))"
)
_NAME = re.compile(r"[A-Z][\w.\-]*(?:\s+(?:[A-Z][\w.\-]*|\d+))*")
_WORD = re.compile(r"\$?\d[\d,.]*[A-Za-z%]*|[A-Za-z][\w.\-']*|[一-鿿]+")
_CJK = re.compile(r"[一-鿿]")


def is_zh(text: str) -> bool:
    """Whether the text is Chinese rather than a Latin text with a Chinese word in it."""
    return len(_CJK.findall(text)) * 4 > len(text)


def draft_of(text: str) -> dict[str, Any]:
    """Return the judgement of one news text, in the schema of the triage prompt."""
    kind, asset, entity = event_type_of(text), asset_of(text), entity_of(text)
    hedged = bool(lx.HEDGES.search(text))
    action = "observe" if kind == "scam_alert" else _action(text)
    confidence = _confidence(text, kind, entity, hedged)
    flags = ["rumour", "unnamed_source"] if hedged else []
    flags += ["second_hand"] if lx.SECOND_HAND.search(text) else []
    flags += ["price_gap"] if _BIG.search(text) and action != "observe" else []
    zh = is_zh(text)
    summary = " ".join(text.split())[:200]
    return {
        "summary": summary,
        # Rules do not translate: in the other language the pipeline tells the claim by its parts.
        "summary_zh": summary if zh else "",
        "summary_en": "" if zh else summary,
        "event_type": kind,
        "claim": stated(text, kind, asset[0], entity),
        "asset": asset[0],
        "asset_name": asset[1],
        "entity": entity,
        "action": action,
        "direction": {"buy": "long", "sell": "short", "observe": "neutral"}[action],
        "confidence": confidence,
        "strength": "high" if _BIG.search(text) or kind in ("hack", "depeg") else "medium",
        "timeframe": "short" if kind in ("hack", "depeg", "liquidation", "whale", "scam_alert") else "medium",
        "risk_flags": flags,
        "notes": _notes(zh, kind, hedged),
        "spam": bool(lx.SPAM.search(text)) or claims_nothing(text),
    }


def claims_nothing(text: str) -> bool:
    """Return whether a text is small talk. It makes a claim if it has an act, a figure, or a name after its first word."""
    return bool(lx.SMALL_TALK.search(text)) and not _is_recognised(text) and not _NAME.search(text.strip()[1:])


def _is_recognised(text: str) -> bool:
    """Return whether any word of the text belongs to an event, an act or a coin, or is a figure."""
    act = lx.OFFICIAL_ACTS.search(text) or lx.NAMED.search(text) or _NUMBER.search(text)
    return bool(act) or _action(text) != "observe" or event_type_of(text) != "other" or asset_of(text)[0] != "UNKNOWN"


def event_type_of(text: str) -> str:
    """Return the event type with the largest weighted count of words; ``other`` when none occurs."""
    weights = {kind: weight * len(set(words.findall(text))) for kind, (words, weight) in lx.EVENT_WORDS.items()}
    best = max(weights, key=lambda kind: weights[kind])
    return best if weights[best] > 0 else "other"


def assets_in(text: str) -> tuple[str, ...]:
    """Return the tickers of the coins that a text names, in its order."""
    return tuple(dict.fromkeys(ticker for _, ticker, _ in sorted(_named_coins(text))))


def _named_coins(text: str) -> list[tuple[int, str, str]]:
    coins: list[tuple[int, str, str]] = []
    taken = text.lower()
    for name, (ticker, title) in lx.ASSETS.items():
        at = taken.find(name)
        if at >= 0:
            coins.append((at, ticker, title))
            taken = taken.replace(name, " " * len(name))
    return coins + [(m.start(), m[1], m[1]) for m in _TICKER.finditer(text) if m[1] in lx.TICKERS]


def asset_of(text: str) -> tuple[str, str]:
    """Return ticker and name of what is listed, else of the first coin or actor's token, else Bitcoin for crypto in general,
    else unknown.
    """
    listed = _LISTED.search(text)
    if listed is not None and listed[1] not in lx.NO_TICKER:
        return listed[1], listed[1]
    low, coins = text.lower(), _named_coins(text)
    # A stablecoin next to another coin is the unit of an amount, unless it is the subject (a depeg).
    kind = event_type_of(text)
    if kind != "depeg" and any(t not in lx.STABLE for _, t, _ in coins):
        coins = [f for f in coins if f[1] not in lx.STABLE]
    # An actor's own token follows the actor's fate; the coin in the text may only be what was lost or paid.
    actors = [(low.find(a), t, t) for a, t in lx.TOKEN_OF.items() if a in low and kind != "scam_alert"]
    first = min([*coins, *actors]) if coins or actors else None
    if first is not None:
        return first[1], first[2]
    return ("BTC", "Bitcoin") if re.search(r"crypto|defi|虚拟货币|加密|代币", low) else ("UNKNOWN", "unknown")


def entity_of(text: str) -> str:
    """Return the subject of the text: the earliest known actor, else the capitalised words at its start, else ""."""
    at = {e: m.start() for e in lx.ENTITIES if (m := re.search(_bounded(e), text))}
    if at:
        return min(at, key=lambda e: (at[e], -len(e)))
    opening = next((m[0] for m in _NAME.finditer(text[:120]) if m[0].upper() != "BREAKING"), "")
    return opening[:60]


def keywords_of(text: str, kind: str, entity: str, *, extra: str = "") -> str:
    """Return search keywords as the planning prompt wants them: names, tickers, amounts, event and official words."""
    words = [w.strip(".,-'") for w in _WORD.findall(text)]
    concrete = [w for w in words if w and w.lower() not in lx.STOP]
    if extra:
        # A further search asks for new names; the words of the first search would only find its pages again.
        named = [w for w in concrete if w[0].isupper() or not w[0].isascii()]
        return " ".join(dict.fromkeys(" ".join([extra.replace(",", " "), entity, *named[:4]]).split()))
    zh = is_zh(text)
    official = lx.OFFICIAL_QUERY[0 if zh else 1] if kind in ("hack", "regulation", "partnership") else ""
    event = lx.EVENT_QUERY.get(kind, "")
    event = event if zh else " ".join(w for w in event.split() if w.isascii())
    parts = [*([] if entity in text else [entity]), *concrete[:16]]
    return " ".join(dict.fromkeys(" ".join([*parts, event, official]).split()))


def new_names(news: str, asked: str, references: list[str]) -> list[str]:
    """Return at most 2 names that two or more references contain, but neither the news nor a search so far."""
    known = f"{news} {asked}".lower()
    counts: dict[str, int] = {}
    for reference in references:
        for name in {m[0] for m in _NAME.finditer(reference.partition("\n")[2]) if " " in m[0]}:
            if name.lower() not in known and 5 <= len(name) <= 40:
                counts[name] = counts.get(name, 0) + 1
    often = sorted((n for n, c in counts.items() if c > 1), key=lambda n: (-counts[n], n))
    return often[:2]


def _bounded(entity: str) -> str:
    return rf"(?<![A-Za-z]){re.escape(entity)}(?![A-Za-z])" if entity.isascii() else re.escape(entity)


def _action(text: str) -> str:
    bad, good = len(set(lx.NEGATIVE.findall(text.lower()))), len(set(lx.POSITIVE.findall(text.lower())))
    return "sell" if bad > 0 and bad >= good else "buy" if good > 0 else "observe"


def _confidence(text: str, kind: str, entity: str, hedged: bool) -> float:
    if kind == "scam_alert":
        return 0.2
    # Of a text without a word that they know, rules cannot say whether it is true.
    level = 0.68 if _is_recognised(text) else 0.46 if entity else 0.5
    level += 0.04 if entity else 0.0
    level += 0.03 if _NUMBER.search(text) else 0.0
    level += 0.06 if lx.OFFICIAL_ACTS.search(text) else 0.0
    level -= 0.03 if lx.LOUD.search(text) else 0.0
    level -= 0.02 if lx.SECOND_HAND.search(text) else 0.0
    level -= 0.28 if hedged else 0.0
    return round(min(TOP_CONFIDENCE, max(0.05, level)), 2)


def _notes(zh: bool, kind: str, hedged: bool) -> str:
    if zh:
        return "离线规则按用词判断" + ("，措辞为传闻或信源未具名" if hedged else "")
    return f"Judged by offline rules: words of {kind}" + (", told as a rumour or by unnamed sources" if hedged else "")
