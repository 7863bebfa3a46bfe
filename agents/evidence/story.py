"""Stories: whether news items report one event, by what triage stated of each. Pure.

Words cannot decide this: reworded reports share few of them, and a denial, the next amount or another coin in the same
template shares nearly all. So the parts of the claims are compared, each resolved by the tables. Readings of one event
differ in a part or two, so a part that one of them leaves open is ignored; parts that both state must agree. A claim
without a subject or without a predicate of the closed lists never shares a story with another.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Final, Literal

from agents.evidence.compiled import Compiled, compiled
from agents.evidence.story_text import OWN_TURNS, PLAIN, head_of, marked_in, turns_in
from agents.text.matching import fold_han, has_cjk
from schemas.config import Tables
from schemas.evidence import DOLLAR_PEGGED
from schemas.signals import NO_ASSET, ClaimAmount, Draft, Modality, StatedClaim, Story

WITHIN: Final = {"coins": 0.02, "market": 0.35}
"""Relative difference up to which two amounts are one figure. Coins are counted; a market's loss depends on the time."""
WITHIN_ELSE: Final = 0.10
"""The same for every other figure: reports round, and first counts grow."""
RECURRING_WITHIN: Final = 0.01
"""The same for recurring events, whose next figure may be close."""
RECURS_WITHIN: Final = timedelta(hours=16)
"""Time within which a recurring event (flows, halts, an authority's decisions) is reported. A later report is the next event."""
Stage = Literal["rumoured", "planned", "stated"]
_STAGES: Final[tuple[Stage, ...]] = ("rumoured", "planned", "stated")
_SIDES: Final[dict[Modality, Literal["denied", "corrected"]]] = {"denied": "denied", "corrected": "corrected"}
_ONE_PREDICATE = (
    ("lists", "opens_trading"), ("delists", "halts_trading"), ("sues", "charges"), ("fines", "settles"),
    ("approves", "permits", "licenses", "passes", "enacts"), ("partners", "integrates", "accepts_payment"),
    ("raises", "invests"), ("halts_withdrawals", "halts_redemption"), ("launches", "upgrades"),
    ("airdrops", "opens_claims"), ("says", "endorses"), ("warns", "scams"), ("goes_public", "files"),
)  # fmt: skip
"""Predicates that are interchangeable in reports of one event."""
_PREDICATE = {word: words[0] for words in _ONE_PREDICATE for word in words}
_RECURS = frozenset(
    {"buys", "sells", "transfers", "withdraws", "mints", "burns", "unlocks", "liquidated", "reports_figure", "halts"}
    | {"resumes", "inflow", "outflow"}
)
_TO_MANY = frozenset(
    {"lists", "lists futures", "roadmap", "delists", "partners", "acquires", "transfers", "withdraws", "says", "warns"}
    | {"appoints", "reports_figure"}
)
"""Acts that one subject may do to several objects within two days, as regulators do. Reports need more than the subject in common."""
_OF_ONE_ASSET = frozenset(
    {
        "lists",
        "lists futures",
        "roadmap",
        "delists",
        "transfers",
        "withdraws",
        "buys",
        "sells",
        "mints",
        "burns",
        "unlocks",
        "holds",
    }
    | {"inflow", "outflow", "depegs", "recovers_peg", "airdrops", "approves", "rejects", "delays", "fines", "files"}
)
"""Predicates for which another asset is another event. Elsewhere the asset may be the victim's coin, the lost coin, or bitcoin."""
_DONE_LATER = frozenset(
    {"buys", "sells", "transfers", "withdraws", "mints", "burns", "raises", "acquires", "buys_back", "goes_public"}
)
"""Predicates for which plan and act are two events. Elsewhere a plan is the announcement: “Will List”."""
_ONE_WAY = frozenset(
    {"transfers", "withdraws", "buys", "sells", "inflow", "outflow", "account_taken_over", "sentences"}
)
"""Predicates for which the same act by the other party is another event."""
_BY_AGENCY = frozenset(
    {"approves", "rejects", "delays", "fines", "sues", "bans", "sanctions", "investigates", "dismisses", "proposes"}
    | {"reports_figure", "warns"}
)
_FLOWS = (("inflow", re.compile(r"inflow|流入")), ("outflow", re.compile(r"outflow|流出")))
_OF_FUNDS = {"buys": "inflow", "sells": "outflow", "withdraws": "outflow"}
_FUTURES = re.compile(r"perp(?:etual)?s?\b|futures|永续|合约")
_ROADMAP = re.compile(r"roadmap|路线图")
_MARKET = re.compile(
    r"\b(?:markets?|traders?|bulls?|bears?|longs?|shorts?|positions?|derivatives|futures|leveraged)\b|全网|市场|多头|空头|多单|空单|合约"
)
_WHALE = re.compile(r"\b(?:whales?|address|wallet|trader)\b|巨鲸|地址|钱包|0x[0-9a-f]{3}")
_ADDRESS = re.compile(r"0x[0-9a-f]{3,}|\b(?:bc1|1|3)[a-z0-9]{4,}\b")
_WORD = re.compile(r"[^\W_]+(?:\.[a-z]{2,4})?")
_PART = r"(?:[A-Z][A-Za-z0-9.&'-]*|[a-z]*[A-Z0-9][A-Za-z0-9.&-]*)"
_NAME = re.compile(rf"(?<![A-Za-z0-9]){_PART}(?: {_PART})*(?![A-Za-z0-9])")
_PLACES = re.compile(
    r"(?:the )?(?:(?P<us>u\.?s\.?a?\.?|united states|america|美国)|(?P<cn>china|mainland china|中国|中国内地)|(?P<hk>hong kong|hk|香港)"
    r"|(?P<kr>south korea|korea|韩国)|(?P<uk>u\.?k\.?|britain|united kingdom|英国)|(?P<eu>eu|european union|欧盟)|(?P<jp>japan|日本))"
    r"(?: government|政府|官方)?"
)
_PLAIN_HAN = re.compile(r"交易所|公司|基金会|协议|平台|集团|项目方|社区|团队|实验室|现货|代币|网络|轮")
_UNITS = (
    ("%", re.compile(r"%|percent|百分")), ("bp", re.compile(r"\bbps?\b|basis|基点")), ("hkd", re.compile(r"hkd|港[元币]")),
    ("usd", re.compile(r"usd|dollar|美[元金]|镁|^(?:us)?\$$")), ("jpy", re.compile(r"jpy|yen|日[元圆]|円")),
    ("krw", re.compile(r"krw|won|韩[元圆]")), ("eur", re.compile(r"eur|€|欧元")), ("gbp", re.compile(r"gbp|pound|英镑|£")),
    ("cny", re.compile(r"cny|rmb|yuan|人民币|^元$")), ("other", re.compile(r"票|year|month|年|月|天|家|人|名|次|倍|ms|小时")),
)  # fmt: skip


def story_of(draft: Draft, claim: StatedClaim, tables: Tables, text: str = "") -> Story | None:
    """Return the story of a claim, by which other reports are found; None if the claim is too vague.

    ``text``: the news. Its head is read too, since triage may state another predicate or omit a word.
    """
    known = compiled(tables)
    predicate, subject = _predicate_of(claim), _subject_of(draft, claim, known)
    if not subject or predicate == "other":
        return None
    coins = {a.ticker for a in known.directory.assets_in(f"{claim.asset} | {claim.object}")}
    assets = coins | {_ticker(claim.asset, known), draft.asset, *marked_in(f"{claim.asset} {claim.object}")}
    tickers = {a.lower() for a in assets - {"", NO_ASSET}}
    names = set[str]() if predicate.endswith("_rate") else _names_in(claim.object, known)
    if subject not in _NOBODY:
        names |= {_name(claim.subject, known), _name(draft.entity or "", known), *_issuers(subject, known)}
    names |= set(_ADDRESS.findall(f"{claim.subject} {claim.object}".lower()))
    # A little known coin is called by its ticker or by its name: INIT, Initia.
    names = {n for n in names if n and not any(len(t) > 2 and n.startswith(t) for t in tickers)}
    # A rate is reported as a step or as a level.
    figure = None if predicate.endswith("_rate") else claim.amount
    decision = draft.event_type == "regulation"
    expected = decision and claim.modality in {"planned", "rumoured"}
    side: Literal["claimed", "denied", "corrected"] = _SIDES.get(claim.modality, "claimed")
    return Story(
        subject=subject,
        predicate=predicate,
        side="expected" if expected else side,
        listed=bool(known.entities.exactly(subject)) or _is_coin(subject, known),
        to_many=predicate in _TO_MANY or decision,
        names=tuple(sorted(names - {subject})),
        assets=tuple(sorted(tickers)),
        words=tuple(sorted(_words_in(claim.object))),
        venue=_name(claim.venue, known),
        amount=None if figure is None else figure.value,
        unit="" if figure is None else _unit(figure, draft.asset),
        turns=turns_in(f"{head_of(text)} | {claim.object}", predicate, side, known),
        marked=tuple(sorted(t.lower() for t in marked_in(head_of(text)))),
        stage=_stage_of(predicate, claim),
    )


def _stage_of(predicate: str, claim: StatedClaim) -> Stage:
    if claim.modality == "rumoured":
        return "rumoured"
    return "planned" if claim.modality == "planned" and predicate in _DONE_LATER else "stated"


def key_of(story: Story) -> str:
    """Return the key that all reports of a story share. An index searches among the reports of one key."""
    return f"{story.predicate}\0{story.side}"


def hooks_of(story: Story) -> frozenset[str]:
    """Return the hooks that a story is indexed by: its key with words of its subject and names, and with its assets."""
    assets = ("*", *(story.assets or ("",))) if story.predicate in _OF_ONE_ASSET else ("*",)
    return frozenset(_hooks(story, assets, subject="s", others="o", names="n"))


def looked_up(story: Story) -> frozenset[str]:
    """Return the hooks to look up. Another story has at least one of them if :func:`compared` may return ``same``."""
    assets = (*story.assets, "") if story.predicate in _OF_ONE_ASSET and story.assets else ("*",)
    names = "n" if story.predicate in _BY_AGENCY else ""
    return frozenset(_hooks(story, assets, subject="so", others="s", names=names))


def _hooks(story: Story, assets: tuple[str, ...], *, subject: str, others: str, names: str) -> Iterator[str]:
    every = ((subject, (story.subject,)), (others, (story.venue, *story.names, *story.assets)), (names, story.names))
    for roles, given in every:
        for name in filter(None, given):
            # Names agree where one begins or ends with the words of the other.
            for word in {name.partition(" ")[0], name.rpartition(" ")[2]}:
                yield from (f"{role}:{word}:{asset}\0{key_of(story)}" for role in roles for asset in assets)


def compared(own: Story, other: Story, apart: timedelta) -> Literal["same", "other", "unclear"]:
    """Return whether two items of one key report the same event. ``apart``: the time between them.

    ``unclear``: no stated part differs, but they have too little in common.
    """
    if _turns_of(own) != _turns_of(other):
        return "other"
    of_one = _agree(own.subject, other.subject)
    shared = of_one or (own.predicate not in _ONE_WAY and _other_role(own, other))
    if (own.predicate in _RECURS or own.to_many) and abs(apart) > RECURS_WITHIN:
        return "other"
    # “The commission”, “the senate”: a decision may be an authority's that the tables do not know by that name.
    if not shared and not (own.predicate in _BY_AGENCY and not (own.listed and other.listed)):
        return "other"
    if own.predicate in _OF_ONE_ASSET and own.assets and other.assets and not _meet(own.assets, other.assets):
        return "other"
    mine, theirs = (*own.names, own.subject), (*other.names, other.subject)
    if own.names and other.names and not _meet(own.names, theirs) and not _meet(other.names, mine):
        return "other"
    if own.venue and other.venue and not _agree(own.venue, other.venue):
        return "other"
    if (figures := _same_amount(own, other)) is False:
        return "other"
    if not shared:
        return "same" if _meet(own.names, other.names) else "unclear"
    enough = figures or not of_one or not (own.to_many and other.to_many)
    return "same" if enough or _linked(own, other) else "unclear"


def adds_nothing(report: Story, earlier: Story) -> bool:
    """Return whether a later report of one event neither differs from an earlier one nor adds to it.

    The figure of a recurring event must be very close. An event that was rumoured or planned before is new once stated.
    """
    known = (*earlier.names, *earlier.assets, earlier.subject, earlier.venue)
    within = RECURRING_WITHIN if report.predicate in _RECURS else 1.0
    return (
        key_of(report) == key_of(earlier)
        and _STAGES.index(report.stage) <= _STAGES.index(earlier.stage)
        and report.turns == earlier.turns
        and set(report.assets) == set(earlier.assets)
        and set(report.marked) <= {*earlier.marked, *known}
        and _meet((report.subject,), known)
        and all(_meet((name,), known) for name in report.names)
        and (not report.venue or _meet((report.venue,), known))
        and (
            report.amount is None or (earlier.amount is not None and _same_amount(report, earlier, within) is not False)
        )
    )


def names_nothing_else(earlier: Story, report: Story) -> bool:
    """Return whether an earlier report names no asset or ticker that a later one omits, so the later one may supersede it."""
    known = {report.subject, report.venue, *report.names, *report.assets, *report.marked}
    return set(earlier.assets) <= known and set(earlier.marked) <= known


def belongs_to(story: Story, reports: Iterable[tuple[Story, timedelta]]) -> bool:
    """Return whether an item belongs to the story of these ``reports`` (with the time between): most are the same event."""
    comparisons = [compared(story, other, apart) for other, apart in reports]
    return comparisons.count("same") > 2 * comparisons.count("other")


def _turns_of(story: Story) -> set[str]:
    """Return the turns in a story's words that its predicate does not imply."""
    return set(story.turns).difference(OWN_TURNS.get(story.predicate, ()))


def _predicate_of(claim: StatedClaim) -> str:
    about = fold_han(claim.object).lower()
    if "etf" in claim.subject.lower() and claim.predicate in _OF_FUNDS:
        return _OF_FUNDS[claim.predicate]
    if claim.predicate in {"buys", "sells", "reports_figure", "other"}:
        for name, words in _FLOWS:
            if words.search(about):
                return name
    predicate = _PREDICATE.get(claim.predicate, claim.predicate)
    if predicate == "lists":  # an exchange's spot market, its futures, and what it may list some day
        return "lists futures" if _FUTURES.search(about) else "roadmap" if _ROADMAP.search(about) else predicate
    return predicate


def _subject_of(draft: Draft, claim: StatedClaim, known: Compiled) -> str:
    written = fold_han(claim.subject).lower()
    if claim.predicate == "liquidated" and (not written or _MARKET.search(written)):
        return "market"
    if draft.event_type in {"whale", "liquidation"} and _WHALE.search(written):
        return "whale"
    subject, entity = _name(claim.subject, known), _name(draft.entity or "", known)
    # “The central bank”, “the Senate”: triage's entity says which one.
    if (
        entity
        and known.entities.exactly(entity)
        and not known.entities.exactly(subject)
        and not _is_coin(subject, known)
    ):
        return entity
    return subject or entity


_NOBODY = frozenset({"market", "whale"})
"""Subjects that identify no party."""


def _issuers(subject: str, known: Compiled) -> set[str]:
    if not _is_coin(subject, known):
        return set()
    return {e.name.lower() for e in known.directory.issuers_of(known.ticker_of(subject))}


def _other_role(own: Story, other: Story) -> bool:
    """Return whether the subject of one is the coin, the venue or another party of the other: Binance lists X, X is listed."""
    mine, theirs = (*own.names, *own.assets, own.venue), (*other.names, *other.assets, other.venue)
    return _meet((own.subject,), theirs) or _meet((other.subject,), mine)


def _linked(own: Story, other: Story) -> bool:
    """Return whether both share more than their subject: another name, a coin, or a word of their objects."""
    if _meet(own.names, (*other.names, *other.assets)) or _meet(own.assets, (*other.names, *other.assets)):
        return True
    return not set(own.words).isdisjoint(other.words)


def _meet(some: tuple[str, ...], others: tuple[str, ...]) -> bool:
    return any(_agree(a, b) for a in some for b in others)


def _agree(name: str, other: str) -> bool:
    """Return whether two names are one: equal, or one begins or ends with the words of the other ("halden", "halden bridge")."""
    if name == other:
        return True
    short, long = (name, other) if len(name) < len(other) else (other, name)
    if len(short) == len(long) or short not in long:
        return False
    return long.startswith(f"{short} ") or long.endswith(f" {short}")


def _same_amount(own: Story, other: Story, at_most: float = 1.0) -> bool | None:
    """Return whether both state the same figure, at most ``at_most`` apart; None if no figures can be compared."""
    if own.amount is None or other.amount is None or own.unit != other.unit or own.unit == "other":
        return None
    within = WITHIN.get("market" if own.subject == "market" else own.unit, WITHIN_ELSE)
    return abs(own.amount - other.amount) <= min(within, at_most) * max(abs(own.amount), abs(other.amount))


def _unit(amount: ClaimAmount, asset: str) -> str:
    """Return the kind of a figure: a currency, a share, coins, or anything else."""
    unit = fold_han(amount.unit).lower()
    kind = next((name for name, words in _UNITS if words.search(unit)), "coins" if unit else "other")
    return "usd" if kind == "coins" and asset in DOLLAR_PEGGED else kind


def _name(name: str, known: Compiled) -> str:
    """Return one spelling of a name in lower case: the coin's ticker, else the entity's, else its own words."""
    plain = fold_han(name).strip()
    if (place := _PLACES.fullmatch(plain.lower())) is not None:
        return place.lastgroup or ""
    words = [w for w in _WORD.findall(_PLAIN_HAN.sub(" ", plain).lower()) if w not in PLAIN]
    for spelled in (plain, plain.removeprefix("美"), " ".join(words)):
        if _is_coin(spelled, known):
            return known.ticker_of(spelled).lower()
        if entities := known.entities.exactly(spelled):
            return entities[0].name.lower()
    # “SEC chair Atkins” acts for the SEC, “以太坊现货 ETF” are those of ETH.
    if "etf" in plain.lower() and len(coins := known.directory.assets_in(plain)) == 1:
        return coins[0].ticker.lower()
    if len(named := known.entities.mentioned(plain)) == 1:
        return named[0].name.lower()
    return " ".join(_ticker(w, known).lower() or _singular(w) for w in words) or plain.lower()


def _is_coin(name: str, known: Compiled) -> bool:
    return bool(name) and known.ticker_of(name) in known.asset_names


def _ticker(name: str, known: Compiled) -> str:
    ticker = known.ticker_of(name) if name else ""
    return ticker if ticker in known.asset_names or ticker == fold_han(name).strip().lstrip("$") else ""


def _names_in(text: str, known: Compiled) -> set[str]:
    """Return the names in the object of a claim: coins and entities of the tables, and capitalised or numbered words."""
    folded = fold_han(text)
    coins = known.directory.assets_in(folded)
    covered = {w.lower() for a in coins for n in (a.ticker, *a.names) for w in n.split()}
    names = {a.ticker.lower() for a in coins}
    for entity in known.entities.mentioned(folded):
        spelled = {n.lower() for n in (entity.name, *entity.aliases)}
        # “Cardano” in an object is the coin, and its foundation's name as well.
        names |= set() if spelled & covered else {entity.name.lower()}
        covered |= {w for n in spelled for w in n.split()}
    for name in _NAME.findall(folded):
        words = [w for w in _WORD.findall(name.lower()) if w not in PLAIN | covered | known.common_words]
        names |= {" ".join(map(_singular, words))} if words and not all(w.isdigit() for w in words) else set()
    return names


def _words_in(text: str) -> set[str]:
    """Return the words of an object that two reports may share: Latin words, and pairs of Chinese characters."""
    words: set[str] = set()
    for word in _WORD.findall(fold_han(text).lower()):
        if has_cjk(word):
            words |= {word[i : i + 2] for i in range(len(word) - 1)}
        elif len(word) > 2 and word not in PLAIN:
            words.add(_singular(word))
    return words


def _singular(word: str) -> str:
    return word.removesuffix("s") if len(word) > 3 else word
