"""Several claims of one message: “Binance will list ZK, PEPE and ARB” makes one claim about each of three assets. Pure.

Conservative: in doubt a message makes one claim. It makes several only if a list of assets in its headline is the object of
the predicate that triage stated, and triage's asset is one of them. Stolen, bought or sold coins are amounts, each with a
figure of its own, and make no claims here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

from msgspec.structs import replace

from agents.evidence.compiled import Compiled, compiled
from agents.evidence.news_claim import HEAD
from agents.tables.directory import Mention
from agents.text.matching import fold_han
from schemas.config import Tables
from schemas.signals import NO_ASSET, Draft, MessagePart, StatedClaim

HEADLINE = 400
"""Characters of the first line in which the list must be."""
_BETWEEN = re.compile(r"\s?(?:,\s?(?:and|&)\s|[,、]\s?(?:以及|及|和|与)?|(?<=\s)(?:and|&)\s|以及|[及和与])\s?")
_BETWEEN_HAN = re.compile(r"\s?(?:、\s?(?:以及|及|和|与)?|以及|[及和与])\s?")
"""What stands between two items of a list. Beside 、 a comma ends a clause."""
_NAME = re.compile(r"[^\W_][\w.'’&-]*(?: [A-Za-z0-9][\w.'’-]*){0,3} ?")
"""A name before its ticker in brackets: the tables may not know it."""
LONGEST_NAME = 40
LONGEST = 20_000
"""Characters of a message that a further claim's case reads, as models do. Its opening holds the whole message once."""
_WORD_START = re.compile(r"(?<![A-Za-z0-9.'’&-])[A-Za-z0-9]")
_MARKED = re.compile(r"\(\$?([A-Z][A-Z0-9]{1,9})\)")
_MARKED_BEHIND = re.compile(rf"(?: [A-Z][\w.'’-]*){{0,2}}\s?{_MARKED.pattern}")
_PAIRED = re.compile(r"[/-]\w|\s?(?:vs?\.?|against)\s", re.IGNORECASE)
_MORE = re.compile(rf"(?:{_BETWEEN.pattern})(?:\$[A-Za-z]|[A-Z][A-Z0-9]{{1,9}}\b(?!\w)|{_NAME.pattern}\()")
"""A further item that nobody knows: perhaps this is no list of assets."""
_NO_VERB = re.compile(
    r"\s?(?:$|[^\w\s]|(?:on|in|with|for|at|to|from|as|next|today|tomorrow|this|spot|perpetuals?|futures|tokens?|coins?|assets?|pairs?"
    r"|trading|etfs?|etps?|funds?|starting|after|effective|via|\d)\b|现货|永续|合约|代币|币种|资产|交易|等|的|并|于|在|韩元|ETF|基金|[一二两三四五六七八九十]+\s?[个种款只])",
    re.IGNORECASE,
)
"""What may follow the list as an object: “lists ZK, BTC and ETH fall” lists one coin."""
_SORT = r"(?:spot|new|tokens?|coins?|assets?|cryptocurrenc(?:y|ies)|perpetuals?|futures|pairs?|contracts?|trading|the|of|for|on|with)"
_SORT_ZH = r"(?:对|了|新|币种|代币|新币|资产|加密货币|现货|永续合约|合约|交易对|交易|的|以下|下列|如下|[\d一二两三四五六七八九十]+\s?[个种款只]|[:：\s「【“])"
_DECISION = r"(?:applications?|listing|listings|decisions?|proposals?|products?|exchange-traded|etfs?|etps?|funds?|first|us|u\.s\.)"


def _family(
    before: str, before_zh: str, after: str, after_zh: str, more: str = ""
) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the patterns of what stands before and behind a list, for one family of predicates."""
    sort = rf"(?:{_SORT}|{more})" if more else _SORT
    words = rf"\b(?:{before})(?:\s(?:support|{sort}))*+\s?:?\s$|(?:{before_zh}){_SORT_ZH}*+(?:ETF\s?)?$"
    passive = (
        rf"\s(?:{sort}\s)*+(?:(?:will|to|are|were|get|gets|have|has|been|be|now|go|goes|officially)\s)++(?:{after})\b"
    )
    passive_zh = rf"\s*等?{_SORT_ZH}*+(?:ETF\s?)?(?:将|已|拟|正式|即将|今日)*+(?:[于在].{{1,24}}?)?(?:{after_zh})"
    return re.compile(words, re.IGNORECASE), re.compile(f"{passive}|{passive_zh}", re.IGNORECASE)


_LISTS = _family(
    "lists?|listed|listing|adds?|adding|launch(?:es)?|opens?|enables?|supports?",
    "上线|上架|上市|上币|新增|开通|开放|支持",
    "listed|added|live|available",
    "上线|上架|上市|登陆",
)
_DELISTS = _family(
    "delists?|delisted|delisting|removes?|removing|drops?|halts?|suspends?|ceases?",
    "下架|下线|移除|停止|暂停",
    "delisted|removed|halted|suspended",
    "下架|下线|停止交易|被移除",
)


_PREDICATES = {
    **dict.fromkeys(("lists", "opens_trading"), _LISTS),
    **dict.fromkeys(("delists", "halts_trading"), _DELISTS),
    "approves": _family("approves?|approved|approving|greenlights?|clears?", "批准|通过|获批|核准", "approved", "获批|通过", _DECISION),
    "rejects": _family("rejects?|rejected|denies|disapproves?", "否决|拒绝|驳回", "rejected|denied", "被拒|被否", _DECISION),
    "delays": _family("delays?|delayed|postpones?|postponed|extends?", "推迟|延迟|延期|延长", "delayed|postponed", "被推迟|推迟", _DECISION),
    "files": _family("files?|filed|files? to list|applies|registers?|registered", "申请|提交", "filed", "获提交", _DECISION),
}  # fmt: skip
"""Predicates for which another asset is another event (:mod:`agents.evidence.story`), and whose object is the asset itself."""
_FAMILIES = tuple(dict.fromkeys(_PREDICATES.values()))
_DECIDED = frozenset({"approves", "rejects", "delays", "files"})
"""Predicates whose object is an asset only if it is that of a fund."""
_ETF = re.compile(r"\b(?:etfs?|etps?|exchange-traded)\b|ETF|交易所交易基金", re.IGNORECASE)
_ASSERTED = frozenset({"asserted", "planned", "rumoured"})


class AssetList(NamedTuple):
    """A list of two assets or more in a text: its place, and its items with their own places."""

    start: int
    end: int
    items: tuple[Mention, ...]

    @property
    def assets(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(item.ticker for item in self.items))


def parts_of(
    first_case: str, draft: Draft, claim: StatedClaim, text: str, tables: Tables, *, at_most: int
) -> tuple[MessagePart, ...]:
    """Return the claims of a message, that about triage's own asset first; empty if it makes one claim.

    ``text``: the message. The others' parts hold what triage says, about their assets. At most ``at_most`` are returned.
    """
    known = compiled(tables)
    assets = _claimed_assets(draft, claim, text, known) if at_most > 1 else ()
    if len(assets) < 2:
        return ()
    ordered = tuple(sorted(assets, key=lambda asset: asset != draft.asset))
    kept, left_out = ordered[:at_most], ordered[at_most:]
    names = {asset: next(iter(known.asset_names.get(asset, ())), asset) for asset in kept}

    def part(asset: str) -> MessagePart:
        def about(words: str) -> str:
            return narrow_to(words, asset, assets, known)

        def said(words: str | None) -> str | None:
            # Where a summary names another asset outside of a list, the claim is told by its parts.
            own = None if words is None else about(words)
            named = {a.ticker for a in known.directory.assets_in(own or "")}
            return "" if named & set(assets) - {asset} else own

        own = replace(
            draft,
            asset=asset,
            asset_name=draft.asset_name if asset == draft.asset else names[asset],
            summary=said(draft.summary) or about(text.strip().partition("\n")[0][:HEADLINE]),
            summary_zh=said(draft.summary_zh),
            summary_en=said(draft.summary_en),
            entity=None if draft.entity is None else about(draft.entity),
        )
        object = _object(about(claim.object), asset, assets, known)
        stated = replace(claim, asset=asset, subject=about(claim.subject), object=object)
        return MessagePart(
            first_case=first_case,
            asset=asset,
            assets=kept,
            left_out=left_out,
            text=about(text[:LONGEST]),
            draft=own,
            claim=stated,
        )

    return tuple(part(asset) for asset in kept)


def narrow_to(text: str, asset: str, assets: Collection[str], known: Compiled) -> str:
    """Return a text in whose head every list that names this asset beside others of ``assets`` names it alone."""
    made, done = list[str](), 0
    for asset_list in _lists_in(text[:HEAD], known):
        own = next((item for item in asset_list.items if item.ticker == asset), None)
        if own is not None and set(asset_list.assets) <= set(assets):
            made += [text[done : asset_list.start], text[own.start : own.end]]
            done = asset_list.end
    return "".join([*made, text[done:]])


def assets_listed_with(asset: str, text: str, known: Compiled) -> tuple[str, ...]:
    """Return the assets of the first list in the head of a text that names this asset; empty without one."""
    return next((asset_list.assets for asset_list in _lists_in(text[:HEAD], known) if asset in asset_list.assets), ())


def _object(stated: str, asset: str, assets: Collection[str], known: Compiled) -> str:
    named = {mention.ticker for mention in known.directory.mentions_in(_folded(stated))}
    return asset if named & set(assets) - {asset} else stated


def _claimed_assets(draft: Draft, claim: StatedClaim, text: str, known: Compiled) -> tuple[str, ...]:
    patterns = _PREDICATES.get(claim.predicate)
    head = _folded(text.strip().partition("\n")[0][:HEADLINE])
    if patterns is None or claim.modality not in _ASSERTED or draft.asset == NO_ASSET:
        return ()
    if claim.predicate in _DECIDED and _ETF.search(head) is None:
        return ()
    for asset_list in _lists_in(head, known):
        if draft.asset in asset_list.assets and _is_object(asset_list, head, patterns):
            parties = (claim.venue, claim.subject, draft.entity or "")
            own = {a for name in parties for e in known.entities.exactly(name) for a in e.assets}
            venues = {e.name for e in known.entities.mentioned(head) if e.kind == "exchange"}
            return asset_list.assets if own.isdisjoint(asset_list.assets) and len(venues) < 2 else ()
    return ()


def _is_object(asset_list: AssetList, head: str, patterns: tuple[re.Pattern[str], re.Pattern[str]]) -> bool:
    before, after = patterns
    rest = head[asset_list.end :]
    if _PAIRED.match(rest) or _MORE.match(rest):
        return False
    is_object = before.search(head[: asset_list.start]) is not None and _NO_VERB.match(rest) is not None
    return is_object or after.match(rest) is not None


def _lists_in(text: str, known: Compiled) -> Iterator[AssetList]:
    """Return the lists of assets in a text: names and tickers with nothing but commas and “and” between them."""
    folded = _folded(text)
    between = _BETWEEN_HAN if "、" in folded else _BETWEEN
    items: list[Mention] = []
    for mention in (*_items_in(folded, known), None):
        if mention is not None and items and between.fullmatch(folded, items[-1].end, mention.start):
            items.append(mention)
            continue
        if len({item.ticker for item in items}) > 1:
            yield AssetList(items[0].start, items[-1].end, tuple(items))
        items = [] if mention is None else [mention]


def _items_in(folded: str, known: Compiled) -> Iterator[Mention]:
    """Return the assets in order; a name and the ticker in brackets behind it are one."""
    marked = {m.start(): Mention(m.start(), m.end(), m[1]) for m in _MARKED.finditer(folded)}
    end = 0
    for mention in sorted((*marked.values(), *known.directory.mentions_in(folded))):
        if mention.start < end:
            continue
        if mention.start in marked:
            yield _with_name(mention, folded, end)
            end = mention.end
        elif (behind := _MARKED_BEHIND.match(folded, mention.end)) is not None:
            yield Mention(mention.start, behind.end(), behind[1])
            end = behind.end()
        else:
            yield mention
            end = mention.end


def _with_name(ticker: Mention, folded: str, end: int) -> Mention:
    """Return a ticker in brackets together with its name, which the tables do not know: up to what stands before a list."""
    between = _BETWEEN.match(folded, end) if end else None
    if between is not None and _NAME.fullmatch(folded, between.end(), ticker.start):
        return ticker._replace(start=between.end())
    words = [m.start() for m in _WORD_START.finditer(folded, max(end, ticker.start - LONGEST_NAME), ticker.start)]
    begun = (
        at for at in reversed(words) if not at or any(p.search(folded[max(0, at - 80) : at]) for p, _ in _FAMILIES)
    )
    return ticker._replace(start=next(begun, ticker.start))


def _folded(text: str) -> str:
    """Return the text of the same length in half-width and simplified characters."""
    return (
        text
        if text.isascii()
        else "".join(c if c.isascii() or len(folded := fold_han(c)) != 1 else folded for c in text)
    )
