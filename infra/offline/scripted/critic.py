"""The scripted critic: what each reference says of the news, by small rules over its best sentence. No model's judgement.

The sentence of title or passage that shares most words with the news is quoted as it stands. Little in common, or another
subject, is unrelated; a denying or a hedging word in the sentence decides the rest.
"""

from __future__ import annotations

import re
from datetime import date, timedelta
from typing import Any

import msgspec

from infra.offline import lexicon as lx
from infra.offline.claims import SCALES
from infra.offline.rules import asset_of, entity_of, is_zh
from infra.search.bm25 import terms

IN_COMMON = 0.3
"""Share of the news' words that a sentence about it holds."""
PER_WORD = 0.05
"""Added to :data:`IN_COMMON` per strict word of the prompt, subtracted per bold one."""
EARLIER_AFTER, DENIES_WITHIN = timedelta(days=30), timedelta(days=3)
SAME_AMOUNT = 0.1
_SENTENCE_ENDS = re.compile(r"(?<=[。!?!?])|(?<=[.!?])\s|\n")
_MIN_CHARACTERS = (12, 6)
"""Of a quote in Latin letters and in Chinese: what the quote check takes."""
_DENIES = re.compile(
    r"\bden(?:y|ies|ied)\b(?! (?:any )?wrongdoing)|\b(?:fake|hoax|false(?:ly)?|untrue|fraudulent|debunk\w*|disown\w*)\b|\bno (?:relationship|plans?|truth)\b"
    r"|\b(?:did|does|do|has|have|was|were|is|are) not\b|否认|辟谣|不实|虚假|并未|从未|未批准|尚无|维持不变",
    re.IGNORECASE,
)
_UNSOURCED = re.compile(r"\bunsourced|no named source|viral post|my source", re.IGNORECASE)
_BOUND = re.compile(r"more than|over|at least|exceed|超过?|逾", re.IGNORECASE)
_SPOKEN = re.compile(r"\bspokes\w+|发言人|相关负责人", re.IGNORECASE)
_CITES = re.compile(r"\b(?:according to|first reported by)\s+((?:[A-Z]\w*\s?){1,3})|据(\S{2,8}?)报道")
_AMOUNT = re.compile(
    r"([$€£¥])?(\d[\d,]*(?:\.\d+)?)\s?(万亿|亿|万|trillion|billion|million|bn|[mbk](?![a-z]))?", re.IGNORECASE
)


class Material(msgspec.Struct, frozen=True, kw_only=True):
    """What the critic is given. ``references``: number → (title, passage); ``known``: number → figures of our code.

    ``same_claims``: earlier claims that code takes for what the news denies.
    """

    news: str
    published: date | None
    references: dict[int, tuple[str, str]]
    same_claims: tuple[int, ...]
    known: dict[int, dict[str, Any]]


def criticised(given: Material, stance: int) -> dict[str, Any]:
    """Return the critique's reply. ``stance``: how strict (> 0) or bold (< 0) the prompt's words are."""
    enough = IN_COMMON + PER_WORD * stance
    entries = [_entry(n, given, enough) for n in given.references]
    against = [e["number"] for e in entries if e["stance"] == "denies"]
    support = [e["number"] for e in entries if e["stance"] == "supports"]
    # Strict words ask for more references than so few.
    supported = "supported" if len(support) > max(stance, 0) else "not_enough_evidence"
    verdict = _against(given, against, support) if against else supported
    claim = {
        "claim": " ".join(given.news.split())[:200],
        "verdict": verdict,
        "reliability": 0.7 if against or support else 0.0,
        "reference_numbers": [*against, *support],
        "reason": f"{len(support)} 个来源支持, {len(against)} 个来源否认"
        if is_zh(given.news)
        else f"{len(support)} references support it, {len(against)} deny it",
    }
    told_again = any(e["stance"] == "earlier" for e in entries) and not support
    return {
        "references": entries,
        "claims": [claim],
        "verdict": verdict,
        "contradictions": [f"[{n}] denies what [{support[0]}] reports" for n in against[:3]] if support else [],
        "timeliness": "stale" if told_again else "fresh" if support else "unknown",
        "concerned": list(given.same_claims),
    }


def in_slots(entry: dict[str, Any]) -> dict[str, Any]:
    """Return an entry of critique version 3 as version 4 asks for it."""
    stance = entry["stance"]
    tells = stance != "unrelated"
    differs = {
        "subject": entry.get("same_subject") is False,
        "act": stance != "earlier" and entry.get("same_event") is False,
        "date": stance == "earlier",
    }
    agrees = "agrees" if tells else "silent"
    slots = dict.fromkeys(("subject", "act", "stage"), agrees) | {"place": "silent", "date": "silent"}
    return {
        "number": entry["number"],
        "quote": entry.get("quote"),
        "reason": entry.get("reason", ""),
        "says": _SAYS[stance],
        **slots | {name: "differs" for name, holds in differs.items() if holds},
        "amount": entry.get("amount") or "silent",
        "speaks_for": entry.get("speaks_for", "other"),
        "cites": entry.get("cites"),
    }


_SAYS = {"supports": "affirms", "earlier": "affirms", "denies": "denies", "hedges": "hedges", "unrelated": "nothing"}


def _entry(number: int, given: Material, enough: float) -> dict[str, Any]:
    news, known, (title, passage) = given.news, given.known.get(number, {}), given.references[number]
    about = [s for s in _sentences(title, passage) if _shared(news, s) >= enough]
    if not about or not _names_both(news, f"{title} {passage}"):
        return {"number": number, "stance": "unrelated"}
    denying = [s for s in about if _DENIES.search(s)]
    quote = max(denying or about, key=lambda s: _shared(news, s))
    stance, amount = _stance(news, quote), _amount(news, quote)
    if stance == "supports" and _is_older(known.get("date"), given.published, EARLIER_AFTER):
        stance = "earlier"
    if stance == "denies" and _is_older(known.get("date"), given.published, DENIES_WITHIN):
        # How things were before denies nothing of what is news.
        return {"number": number, "stance": "unrelated"}
    cited = _CITES.search(passage)
    return {
        "number": number,
        "quote": quote,
        "reason": f"its sentence holds {_shared(news, quote):.0%} of the words",
        "stance": stance,
        "same_subject": True,
        "same_event": stance != "earlier",
        "amount": amount,
        "speaks_for": "party" if known.get("official") or _SPOKEN.search(quote) else "other",
        "cites": (cited[1] or cited[2]).strip() if cited else None,
    }


def _stance(news: str, quote: str) -> str:
    denies = _DENIES.search(quote) is not None
    if not denies and (lx.HEDGES.search(quote) or _UNSOURCED.search(quote)):
        return "hedges"
    # For news that denies, a page that denies the same supports it.
    return "supports" if denies == bool(_DENIES.search(news)) else "denies"


def _sentences(title: str, passage: str) -> list[str]:
    parts = [title, *_SENTENCE_ENDS.split(passage)]
    return [s for p in parts if (s := (p or "").strip()) and len(s) >= _MIN_CHARACTERS[is_zh(s)]]


def _shared(news: str, text: str) -> float:
    wanted = {t for t in terms(news) if t not in lx.STOP}
    return len(wanted.intersection(terms(text))) / max(1, len(wanted))


def _against(given: Material, against: list[int], support: list[int]) -> str:
    # Whoever is concerned has the last word; else the side with more pages, and a tie is a conflict.
    words = {given.known.get(n, {}).get("official"): n in against for n in (*against, *support)}
    if True in words:
        return "refuted" if words[True] else "supported"
    return "refuted" if not support else "supported" if len(support) > 2 * len(against) else "conflicting"


def _names_both(news: str, text: str) -> bool:
    """Whether a page names whom and which coin the news is about: another deal of the same party is another matter."""
    low, entity, (ticker, name) = text.lower(), entity_of(news), asset_of(news)
    coin = {c.lower() for c in (ticker, name, *(n for n, (t, _) in lx.ASSETS.items() if t == ticker))}
    has_entity = not entity or any(w.lower() in low for w in entity.split())
    coins = {c for c in coin if c in news.lower()}
    return has_entity and (not coins or any(c in low for c in coin))


def _amount(news: str, quote: str) -> str:
    claimed, quoted_amounts = _amounts(news), _amounts(quote)
    if not claimed or not quoted_amounts:
        return "silent"
    least = min(claimed) * (1 - SAME_AMOUNT)
    same = any(abs(a - b) <= SAME_AMOUNT * max(a, b) for a in claimed for b in quoted_amounts)
    return "agrees" if same or (_BOUND.search(news) and max(quoted_amounts) >= least) else "differs"


def _amounts(text: str) -> set[float]:
    figures = [
        (float(m[2].replace(",", "")) * SCALES.get((m[3] or "").lower(), 1.0), m) for m in _AMOUNT.finditer(text)
    ]
    return {value for value, m in figures if value and (m[1] or m[3] or "," in m[2])}


def _is_older(event_date: str | None, published: date | None, than: timedelta) -> bool:
    return bool(event_date and published and date.fromisoformat(event_date[:10]) < published - than)
