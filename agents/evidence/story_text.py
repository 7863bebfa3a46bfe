"""New words in a news text compared with an earlier report of the same event. Pure.

Triage may state the wrong predicate or omit a name, and then two events look like one. So the texts are compared too:
reversals and next steps, and the names and figures of a head. Anything not surely in the earlier text counts as new.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from agents.evidence.compiled import Compiled
from agents.text.amounts import Amounts, share
from agents.text.matching import fold_han, has_cjk

HEAD = 200
"""Characters of the first line that count as a text's head."""
SAME_FIGURE = 0.10
OWN_TURNS: dict[str, tuple[str, ...]] = {
    "delays": ("postponed",), "dismisses": ("dropped",), "cancels": ("dropped", "postponed"), "ends": ("dropped",),
    "rejects": ("dropped", "rejected"), "resumes": ("resumed", "again", "paused"), "halts": ("paused",),
    "resumes_withdrawals": ("resumed", "again", "paused"), "halts_withdrawals": ("paused",), "halts_redemption": ("paused",),
    "recovers_peg": ("resumed", "recovered"), "recovers_funds": ("recovered",), "reimburses": ("recovered", "completed"),
    "raises": ("completed",), "raises_rate": ("lifted",), "depegs": ("dropped",), "lists futures": ("futures",),
}  # fmt: skip
"""Predicate → the turns that it implies, so that words for them add nothing."""
TURNS_OF: dict[str, frozenset[str]] = {
    "sold": frozenset({"buys"}), "removed": frozenset({"lists"}), "arrested": frozenset({"hacked"}),
    "another": frozenset({"airdrops", "hacked", "halts", "depegs", "halts_withdrawals"}),
    "settled": frozenset({"sues", "investigates"}), "ruled": frozenset({"sues", "investigates"}),
}  # fmt: skip
"""Turns that count only for these predicates. For others they are the event itself or a circumstance."""
PLAIN = frozenset([
    "the", "a", "an", "of", "and", "for", "on", "in", "to", "by", "with", "from", "s", "its", "us", "u.s", "usa",
    "american", "inc", "incorporated", "corp", "corporation", "co", "company", "lp", "ltd", "limited", "llc", "plc",
    "labs", "lab", "exchange", "protocol", "foundation", "network", "platform", "dao", "community", "team", "group",
    "holdings", "finance", "capital", "spot", "series", "round", "token", "tokens", "coin", "coins", "crypto",
    "cryptocurrency", "stablecoin", "bill", "act", "first", "second", "etf", "etfs", "ipo", "nft", "nfts", "defi",
    "ceo", "cto", "founder", "asset", "assets", "digital", "virtual", "fund", "trust", "bank", "q1", "q2", "q3",
    "q4", "just", "breaking", "update", "alert", "krw", "usd", "jpy", "hkd", "eur", "south", "north", "ai", "rwa",
    "chapter"
])  # fmt: skip
"""Words that do not distinguish names."""
_STEPS = {
    w: n for n, w in enumerate(("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"), 1)
}
_STEPS |= {w: n for n, w in enumerate("一二三四五六七八九十", 1)}
_IN_STEPS = frozenset({"airdrops", "launches", "unlocks"})
_STEP = re.compile(
    r"\b(?:season|round|phase|wave|epoch|tranche|batch)\s(?:no\.?\s?|#)?(?P<en>\d{1,2}|one|two|three|four|five|six|seven|eight|nine|ten)\b"
    r"|第\s?(?P<zh>\d{1,2}|[一二三四五六七八九十])\s?(?:轮|季(?!度)|期|批|阶段|次|波)",
    re.IGNORECASE,
)
"""One step of several: “phase 3”, 第三轮."""
_MARKED = re.compile(r"\(([A-Z][A-Z0-9]{1,9})\)|\$([A-Z][A-Z0-9]{1,9})\b")
_NAMED = re.compile(r"(?<![A-Za-z0-9])(?:@\w+|0x[0-9a-f]+|[A-Za-z][A-Za-z0-9_'’.&-]*[A-Za-z0-9])")
_INNER = re.compile(r".[A-Z]|[A-Za-z].*[0-9]|^0x")
_TITLED = 0.6
_WORD = re.compile(r"[a-z0-9][a-z0-9_]*")


def head_of(text: str) -> str:
    """Return the head of a news text: its first line, cut to ``HEAD`` characters."""
    return fold_han(text.strip().partition("\n")[0][:HEAD])


def marked_in(text: str) -> set[str]:
    """Return the tickers that a text marks as such: $ABC or (ABC)."""
    return {a or b for a, b in _MARKED.findall(fold_han(text))}


def turns_in(text: str, predicate: str, side: str, known: Compiled) -> tuple[str, ...]:
    """Return the reversals and next steps of the predicate that a text mentions."""
    words_read = known.not_turns.sub(" ; ", fold_han(text))
    counted = {name: words for name, words in known.turns.items() if predicate in TURNS_OF.get(name, {predicate})}
    turns = [name for name, words in counted.items() if words.search(words_read)]
    steps = {m["en"] or m["zh"] for m in _STEP.finditer(words_read)}
    turns += [f"step {_STEPS.get(step.lower(), step)}" for step in steps if predicate in _IN_STEPS]
    denies = side == "claimed" and known.grammar.sense(words_read.lower()).denial
    return tuple(sorted([*turns, *(["denied"] if denies else [])]))


def adds_words(text: str, named: Iterable[str], earlier: str, known: Compiled) -> bool:
    """Return whether the head of a text has a name, or only figures, that an earlier text does not contain.

    ``named``: the names in its claim, in lower case. They were already compared with the earlier claim.
    """
    head, before, stated = head_of(text), fold_han(earlier), " | ".join(named)
    figures, known_figures = Amounts(head.lower()).given, Amounts(before.lower()).given
    if figures and known_figures and not share(figures, known_figures, within=SAME_FIGURE):
        return True
    listed, held = _listed(head, known), _listed(before, known)
    words = {*_WORD.findall(before.lower()), *_WORD.findall(stated), *known.places}
    new = [spelled for name, spelled in listed.items() if name not in held and not spelled & words]
    if new:
        return True
    # Names that the tables hold may be spelled in another way there.
    words |= {word for spelled in listed.values() for name in spelled for word in _WORD.findall(name)}
    return not all(_is_known(name, words, known) for name in _names_in(head))


def _listed(text: str, known: Compiled) -> dict[str, set[str]]:
    """Return the coins and entities that a text names, with their spellings in lower case."""
    spellings = {a.ticker: {a.ticker.lower(), *(n.lower() for n in a.names)} for a in known.directory.assets_in(text)}
    for e in known.entities.mentioned(text):
        spelled = {n.lower() for n in (e.name, *e.aliases)}
        # “Ethereum” is the coin, and its foundation's name as well.
        if not any(spelled & coin for coin in spellings.values()):
            spellings[e.name] = spelled
    return spellings


def _names_in(head: str) -> list[str]:
    """Return the probable names. In a headline that capitalises every word, plain words are left out."""
    words = _NAMED.findall(head)
    plain = [w for w in words if w.isalpha() and len(w) > 3]
    capital = [w for w in plain if w[0].isupper()]
    if not has_cjk(head) and len(capital) > _TITLED * len(plain):
        return [w for w in words if w.startswith("@") or (_INNER.search(w) and not w.isupper())]
    return [*(w for w in words if w.startswith("@") or _INNER.search(w)), *capital]


def _is_known(name: str, words: set[str], known: Compiled) -> bool:
    parts = [p for p in _WORD.findall(name.lower()) if len(p) > 1 and p not in PLAIN]
    return all(p in words or p.removesuffix("s") in words or p in known.common_words for p in parts)
