"""Stories: whether news items tell one event, by what triage stated of each. Pure.

Words cannot say so: re-worded tellings share few of them, and a denial, the next amount or another coin in the same
template shares nearly all. So the parts of the claims are compared, each resolved by the tables. Readings of one event
differ in a part or two, so a part that one of them leaves open speaks neither for nor against; what both state must agree.
A claim without a subject or without a predicate of the closed lists is never one story with another.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import timedelta
from typing import Final, Literal

from agents.evidence.compiled import Compiled, compiled
from agents.text.matching import fold_han, has_cjk
from schemas.config import Tables
from schemas.signals import NO_ASSET, ClaimAmount, Draft, Modality, StatedClaim, Story

WITHIN = 0.10
"""Relative difference up to which the amounts of two tellings are one figure: reports round, and first counts grow."""
RECURS_WITHIN = timedelta(hours=16)
"""What recurs daily, or may (flows, transfers, liquidations), is told within so long; what comes later is the next one."""
_SIDES: Final[dict[Modality, Literal["denied", "corrected"]]] = {"denied": "denied", "corrected": "corrected"}
_ONE_PREDICATE = (
    ("lists", "opens_trading"), ("approves", "permits", "licenses"), ("sues", "charges"), ("fines", "settles"),
    ("partners", "integrates", "accepts_payment"), ("raises", "invests"),
    ("halts_withdrawals", "halts_redemption"), ("launches", "upgrades"), ("airdrops", "opens_claims"),
    ("says", "endorses"), ("warns", "scams"), ("liquidated",), ("goes_public", "files"),
)  # fmt: skip
"""Predicates that readings of one event choose between."""
_PREDICATE = {word: words[0] for words in _ONE_PREDICATE for word in words}
_RECURS = frozenset(
    {"buys", "sells", "transfers", "withdraws", "mints", "burns", "liquidated", "reports_figure", "inflow", "outflow"}
)
_TO_MANY = frozenset(
    {"lists", "delists", "halts_trading", "partners", "acquires", "transfers", "withdraws", "says", "warns", "appoints"}
)
"""What one subject may do to several in two days, as every regulator does: tellings need more in common than the subject."""
_FLOWS = (("inflow", re.compile(r"inflow|流入")), ("outflow", re.compile(r"outflow|流出")))
_MARKET = re.compile(
    r"(?:^|\b)(?:market|markets|traders?|bulls?|bears?|longs?|shorts?|positions?|derivatives|futures|leveraged)\b|全网|市场|多头|空头|多单|空单|合约"
)
_WORD = re.compile(r"[^\W_]+(?:\.[a-z]{2,4})?")
_MARKED = re.compile(r"\(([A-Z][A-Z0-9]{1,9})\)|\$([A-Z][A-Z0-9]{1,9})\b")
_NAME = re.compile(r"(?<![A-Za-z0-9])(?:[A-Z][A-Za-z0-9]*|[a-z]*[A-Z0-9][A-Za-z0-9]*)(?![A-Za-z0-9])")
_PLAIN = frozenset(
    [
        "the",
        "a",
        "an",
        "of",
        "and",
        "for",
        "on",
        "in",
        "to",
        "by",
        "with",
        "from",
        "s",
        "its",
        "us",
        "u.s",
        "usa",
        "american",
        "inc",
        "incorporated",
        "corp",
        "corporation",
        "co",
        "company",
        "ltd",
        "limited",
        "llc",
        "plc",
        "labs",
        "lab",
        "exchange",
        "protocol",
        "foundation",
        "network",
        "platform",
        "dao",
        "community",
        "team",
        "group",
        "holdings",
        "spot",
        "series",
        "round",
        "token",
        "tokens",
        "coin",
        "coins",
        "crypto",
        "stablecoin",
    ]
)
_PLAIN_HAN = re.compile(r"交易所|公司|基金会|协议|平台|集团|项目方|社区|团队|实验室|现货|代币|网络|美国|轮")
_DOLLARS = re.compile(r"usd|dollar|美元|美金|^\$$|^us\$$")


def story_of(draft: Draft, claim: StatedClaim, tables: Tables) -> Story | None:
    """Return what other tellings of the claim are found by; None for a claim too vague to be found."""
    known = compiled(tables)
    predicate = _predicate_of(claim)
    subject = _name(claim.subject or draft.entity or "", known)
    if predicate == "liquidated" and (not subject or _MARKET.search(fold_han(claim.subject).lower())):
        subject = "market"
    if not subject or predicate == "other":
        return None
    coins = {a.ticker for a in known.directory.assets_in(f"{claim.asset} | {claim.object}")}
    assets = coins | {_ticker(claim.asset, known), draft.asset, *_marked(f"{claim.asset} {claim.object}")}
    tickers = {a.lower() for a in assets - {"", NO_ASSET}}
    names = {_name(n, known) for n in (draft.entity or "", claim.venue)} | _names_in(claim.object, known)
    # A little known coin is called by its ticker or by its name: INIT, Initia.
    names = {n for n in names if n and not any(len(t) > 2 and n.startswith(t) for t in tickers)}
    return Story(
        subject=subject,
        predicate=predicate,
        side=_SIDES.get(claim.modality, "claimed"),
        to_many=predicate in _TO_MANY or draft.event_type == "regulation",
        names=tuple(sorted(names - {subject})),
        assets=tuple(sorted(tickers)),
        words=tuple(sorted(_words_in(claim.object))),
        venue=_name(claim.venue, known),
        amount=None if claim.amount is None else claim.amount.value,
        unit=_unit(claim.amount),
    )


def key_of(story: Story) -> str:
    """Return what is equal in all tellings of a story: an index looks among those of one key."""
    return f"{story.predicate}\0{story.side}"


def compared(one: Story, other: Story, apart: timedelta) -> Literal["same", "other", "unclear"]:
    """Return whether two items of one key tell the same event. ``apart``: between their own times.

    ``unclear``: nothing that both state differs, but they have too little in common.
    """
    if not _share_subject(one, other) or (one.predicate in _RECURS and abs(apart) > RECURS_WITHIN):
        return "other"
    if one.assets and other.assets and not _meet(one.assets, other.assets):
        return "other"
    mine, theirs = (*one.names, one.subject), (*other.names, other.subject)
    if one.names and other.names and not _meet(one.names, theirs) and not _meet(other.names, mine):
        return "other"
    if one.venue and other.venue and not _agree(one.venue, other.venue):
        return "other"
    if not _same_amount(one, other):
        return "other"
    return "same" if not (one.to_many and other.to_many) or _linked(one, other) else "unclear"


def tells(story: Story, tellings: Iterable[tuple[Story, timedelta]]) -> bool:
    """Whether an item tells the story of these ``tellings`` (with the time between): like some, and unlike fewer."""
    found = [compared(story, other, apart) for other, apart in tellings]
    return found.count("same") > found.count("other")


def _predicate_of(claim: StatedClaim) -> str:
    if claim.predicate in {"buys", "sells", "reports_figure", "other"}:
        for name, words in _FLOWS:
            if words.search(fold_han(claim.object).lower()):
                return name
    return _PREDICATE.get(claim.predicate, claim.predicate)


def _share_subject(one: Story, other: Story) -> bool:
    mine, theirs = (one.subject, *one.names, *one.assets), (other.subject, *other.names, *other.assets)
    return _meet((one.subject,), theirs) or _meet((other.subject,), mine)


def _linked(one: Story, other: Story) -> bool:
    """Whether they have more in common than one name."""
    theirs = (other.subject, *other.names, *other.assets)
    shared = {n for n in (one.subject, *one.names, *one.assets) if _meet((n,), theirs)}
    return len(shared) > 1 or not set(one.words).isdisjoint(other.words)


def _meet(some: tuple[str, ...], others: tuple[str, ...]) -> bool:
    return any(_agree(a, b) for a in some for b in others)


def _agree(one: str, other: str) -> bool:
    """Whether two names are one: equal, or the first words of one are the whole of the other ("halden", "halden bridge")."""
    return one == other or f"{one} ".startswith(f"{other} ") or f"{other} ".startswith(f"{one} ")


def _same_amount(one: Story, other: Story) -> bool:
    if one.amount is None or other.amount is None or one.unit != other.unit:
        return True
    return abs(one.amount - other.amount) <= WITHIN * max(abs(one.amount), abs(other.amount))


def _unit(amount: ClaimAmount | None) -> str:
    """Return the kind of a figure: dollars, a share, or of whatever else."""
    if amount is None:
        return ""
    unit = fold_han(amount.unit).lower()
    return "usd" if _DOLLARS.search(unit) else "%" if "%" in unit else "units"


def _short(name: str) -> str:
    plain = fold_han(name).strip()
    return plain.removeprefix("美") if plain.startswith("美") and not has_cjk(plain[1:]) else plain


def _name(name: str, known: Compiled) -> str:
    """Return one spelling of a name in lower case: the coin's ticker, else the entity's, else its own words."""
    plain = _short(name)
    if not plain:
        return ""
    words = [w for w in _WORD.findall(_PLAIN_HAN.sub(" ", plain).lower()) if w not in _PLAIN]
    bare = " ".join(words)
    for spelled in (plain, bare):
        if spelled and (ticker := known.ticker_of(spelled)) in known.asset_names:
            return ticker.lower()
        if found := known.entities.exactly(spelled):
            return found[0].name.lower()
    # “SEC chair Atkins” acts for the SEC, “spot Bitcoin ETFs” are those of BTC.
    named = known.entities.mentioned(plain)
    if len(named) == 1:
        return named[0].name.lower()
    return " ".join(_ticker(w, known).lower() or _singular(w) for w in words)


def _ticker(name: str, known: Compiled) -> str:
    ticker = known.ticker_of(name) if name else ""
    return ticker if ticker in known.asset_names or ticker == fold_han(name).strip().lstrip("$") else ""


def _marked(text: str) -> set[str]:
    return {a or b for a, b in _MARKED.findall(fold_han(text))}


def _names_in(text: str, known: Compiled) -> set[str]:
    """Return the names in the object of a claim: entities and coins of the tables, else what is capitalised or numbered."""
    folded = fold_han(text)
    coins = known.directory.assets_in(folded)
    covered = {w.lower() for a in coins for n in (a.ticker, *a.names) for w in n.split()}
    found = {a.ticker.lower() for a in coins}
    for entity in known.entities.mentioned(folded):
        spelled = {n.lower() for n in (entity.name, *entity.aliases)}
        # “Cardano” in an object is the coin, and its foundation's name as well.
        found |= set() if spelled & covered else {entity.name.lower()}
        covered |= {w for n in spelled for w in n.split()}
    return found | {_singular(w.lower()) for w in _NAME.findall(folded) if w.lower() not in _PLAIN | covered | _KINDS}


_KINDS = frozenset({"etf", "etfs", "ipo", "dao", "nft", "nfts", "defi", "q1", "q2", "q3", "q4"})


def _words_in(text: str) -> set[str]:
    """Return the words of an object that may be common to two tellings: Latin ones, and pairs of Chinese characters."""
    found: set[str] = set()
    for word in _WORD.findall(fold_han(text).lower()):
        if has_cjk(word):
            found |= {word[i : i + 2] for i in range(len(word) - 1)}
        elif len(word) > 2 and word not in _PLAIN | _KINDS:
            found.add(_singular(word))
    return found


def _singular(word: str) -> str:
    return word.removesuffix("s") if len(word) > 3 else word
