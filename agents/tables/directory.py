"""The directory: entity, asset or outlet of a name, a host, an account or a ticker, by the tables of one snapshot. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from agents.text.matching import CJK, fold_han, has_cjk, words_regex
from schemas.config import Asset, Entity, Outlet, Platform, Tables

_TICKER = re.compile(r"(?<![A-Za-z0-9_$])(\$?)([A-Za-z0-9]{1,12})(?![A-Za-z0-9_])")
_BEFORE = re.compile(r"(?:\(|代币 ?|(?i:token|coin) )$")
_AFTER = re.compile(r"^(?:\)|[/-](?:USDT?|USDC|BTC|ETH|BNB|EUR|KRW)\b| ?(?:代币|币)| (?i:tokens?|coins?)\b)")
"""Marks after a ticker that is also a word: (ONE), ONE/USDT, ONE 代币, the ONE token."""
_CITING = re.compile(rf"(?:^|[^{CJK}]|[据引述自由被向对在是和与及])$")
_EDGAR_CIK = re.compile(r"/edgar/data/0*(\d+)(?:/|$)|[?&]cik=0*(\d+)", re.IGNORECASE)


class Mention(NamedTuple):
    """Where a text names an asset."""

    start: int
    end: int
    ticker: str


class Directory:
    """The compiled lookups. All ignore case and Han variants unless they say otherwise."""

    def __init__(self, tables: Tables) -> None:
        self._by_domain = _grouped((d.lower(), e) for e in tables.entities for d in e.domains)
        self._by_account = {a: e for e in tables.entities for a in e.accounts}
        self._by_cik = {c: e for e in tables.entities for c in e.ciks}
        self._issuers = _grouped((t, e) for e in tables.entities for t in e.assets)
        self._platforms = {host: p for p in tables.platforms for host in (p.domain, *p.hosts)}
        self._entities = _grouped((_key(e.name), e) for e in tables.entities)
        self._assets = {a.ticker: a for a in tables.assets}
        self._asset_names = {_key(n): a for a in tables.assets for n in a.names}
        self._asset_pattern = words_regex(n for n in self._asset_names if len(n) > 1)
        self._ordinary = frozenset(_key(n) for n in tables.lexicon.get("ambiguous_names", ()))
        self._word_tickers = frozenset(tables.lexicon.get("ambiguous_tickers", ()))
        self._outlets = {_key(n): o for o in tables.outlets for n in (o.name, *o.aliases)}
        self._outlet_hosts = {o.domain: o for o in tables.outlets}
        self._outlet_pattern = words_regex(self._outlets)
        self._outlet_accounts = {a: o for o in tables.outlets for a in o.accounts}

    def entities_of_host(self, host: str) -> tuple[Entity, ...]:
        """Return the owners of a host: the entities of the longest listed domain that contains it. Several share europa.eu.

        On a platform that is the platform's company, not the author: use :meth:`speakers_of`.
        """
        return next((self._by_domain[d] for d in _domains(host) if d in self._by_domain), ())

    def platform_of(self, host: str) -> Platform | None:
        """Return the platform that a host belongs to."""
        return next((self._platforms[d] for d in _domains(host) if d in self._platforms), None)

    def account_of(self, url: str) -> str | None:
        """Return the account that publishes at an address of a platform, as ``platform/handle`` in lower case.

        The platform's domain alone if the address does not contain the account (``youtube.com/watch``); None off the
        platforms. ``twitter.com/Binance/status/1`` and ``x.com/binance`` are one account, so are ``name.medium.com`` and
        ``medium.com/@name``.
        """
        host = _host(url)
        platform = self.platform_of(host)
        if platform is None:
            return None
        parts = urlsplit(url if "//" in url else f"//{url}")
        handle = self._label(host, platform) or _in_query(parts.query, platform) or _in_path(parts.path, platform)
        handle = handle.lower().removeprefix("@").removesuffix(".eth")
        return f"{platform.domain}/{handle}" if handle else platform.domain

    def _label(self, host: str, platform: Platform) -> str:
        if not platform.by_host or host in self._platforms:
            return ""
        label = next(host.removesuffix(f".{d}") for d in _domains(host)[1:] if d in self._platforms)
        return "" if label in {"www", "m", "mobile", "api", "docs"} else label.rpartition(".")[2]

    def entity_of_account(self, url: str) -> Entity | None:
        """Return the entity whose account publishes at an address of a platform; None where anybody can write."""
        account, platform = self.account_of(url), self.platform_of(_host(url))
        if account is None or platform is None or set(urlsplit(url).path.lower().split("/")) & set(platform.open):
            return None
        return self._by_account.get(account)

    def speakers_of(self, url: str) -> tuple[Entity, ...]:
        """Return the speakers of an address: the registrant of a filing, the owner of the account, or the owners of the host.

        An unlisted account on a platform has no speaker, whoever owns the platform. A filing of an unlisted registrant has none
        either: the SEC does not speak there.
        """
        if (number := self.cik_of(url)) is not None:
            return (self._by_cik[number],) if number in self._by_cik else ()
        if self.account_of(url) is not None:
            owner = self.entity_of_account(url)
            return (owner,) if owner else ()
        return self.entities_of_host(_host(url))

    def cik_of(self, url: str) -> int | None:
        """Return the registrant's number in an address of a filing on EDGAR; None for any other address."""
        if _host(url) not in {"sec.gov", "www.sec.gov", "data.sec.gov"}:
            return None
        match = _EDGAR_CIK.search(url)
        return int(match[1] or match[2]) if match else None

    def asset_of(self, word: str) -> Asset | None:
        """Return the asset of a field that contains only an asset: a ticker in any case, with or without $, or a name."""
        plain = fold_han(word).removeprefix("$")
        return self._assets.get(plain.upper()) or self._asset_names.get(_key(plain))

    def assets_in(self, text: str) -> tuple[Asset, ...]:
        """Return the assets that a text names, each once, in the text's order.

        A ticker counts in upper case, or after $ in any case. One of the lexicon's ``ambiguous_tickers`` (LINK, ONE, NEAR)
        counts only if marked: after $, in brackets, as a trading pair, or beside 代币, 币, token, coin. A name that is also an
        ordinary word (``ambiguous_names``) must begin with a capital.
        """
        written = fold_han(text)
        placed: list[tuple[int, Asset]] = []
        taken: list[tuple[int, int]] = []
        for match in self._asset_pattern.finditer(written):
            asset = self._asset_names[_key(match.group())]
            if not self._is_ordinary(match.group(), asset):
                placed.append((match.start(), asset))
                taken.append(match.span())
        for match in _TICKER.finditer(written):
            listed = self._assets.get(match[2].upper() if match[1] else match[2])
            inside = any(a <= match.start() < b for a, b in taken)
            if listed is not None and not inside and self._is_meant(match, written):
                placed.append((match.start(), listed))
        ordered = sorted(placed, key=lambda place: place[0])
        return tuple({asset.ticker: asset for _, asset in ordered}.values())

    def mentions_in(self, text: str) -> tuple[Mention, ...]:
        """Return every place of a text, which must be folded, that may name an asset; also words that are tickers, too.

        For readers that know by something else that assets are named there, such as a list of them.
        """
        names = [Mention(*m.span(), self._asset_names[_key(m.group())].ticker) for m in self._asset_pattern.finditer(text)
                 if not (m.group().islower() and _key(m.group()) in self._ordinary)]  # fmt: skip
        tickers = [Mention(m.start(), m.end(), listed.ticker) for m in _TICKER.finditer(text)
                   if (listed := self._assets.get(m[2].upper() if m[1] else m[2])) is not None
                   and not any(n.start <= m.start() < n.end for n in names)]  # fmt: skip
        return tuple(sorted((*names, *tickers)))

    def _is_ordinary(self, spelled: str, asset: Asset) -> bool:
        if spelled == asset.ticker and spelled in self._word_tickers:
            return True
        return spelled.islower() and _key(spelled) in self._ordinary

    def _is_meant(self, match: re.Match[str], text: str) -> bool:
        if match[1] or match[2] not in self._word_tickers:
            return True
        before, after = text[max(0, match.start() - 8) : match.start()], text[match.end() : match.end() + 8]
        return _BEFORE.search(before) is not None or _AFTER.match(after) is not None

    def issuers_of(self, ticker: str) -> tuple[Entity, ...]:
        """Return the entities behind an asset: its issuer, else the lead of its development."""
        asset = self._assets.get(ticker.upper())
        named = self._entities.get(_key(asset.issuer), ()) if asset and asset.issuer else ()
        return tuple({id(e): e for e in (*named, *self._issuers.get(ticker.upper(), ()))}.values())

    def outlet_of(self, cited: str) -> Outlet | None:
        """Return the medium that a citation names: as a whole, or as the first name in it ("CoinDesk reporter …").

        Within a longer text, a Latin name must be capitalised, and a Chinese name of two characters must be at a beginning or
        after a word of citing: "to decrypt", "in the block", 今日经济 and 资金十亿 cite nobody.
        """
        written = fold_han(cited)
        if (whole := self._outlets.get(_key(written))) is not None:
            return whole
        for match in self._outlet_pattern.finditer(written):
            name = match.group()
            if not has_cjk(name):
                meant = any(c.isupper() or c == "." for c in name)
            else:
                meant = len(name) > 2 or _CITING.search(written[: match.start()]) is not None
            if meant:
                return self._outlets[_key(name)]
        return None

    def outlet_of_account(self, url: str) -> Outlet | None:
        """Return the medium whose own account publishes at an address of a platform."""
        return self._outlet_accounts.get(self.account_of(url) or "")

    def outlet_of_host(self, host: str) -> Outlet | None:
        """Return the medium or press wire of a host; its ``wire`` distinguishes them."""
        return next((self._outlet_hosts[d] for d in _domains(host) if d in self._outlet_hosts), None)


def _grouped(pairs: Iterable[tuple[str, Entity]]) -> dict[str, tuple[Entity, ...]]:
    groups: dict[str, tuple[Entity, ...]] = {}
    for key, entity in pairs:
        groups[key] = (*groups.get(key, ()), entity)
    return groups


def _key(name: str) -> str:
    return fold_han(name).casefold()


def _host(url: str) -> str:
    try:
        return (urlsplit(url if "//" in url else f"//{url}").hostname or "").rstrip(".").lower()
    except ValueError:
        return ""


def _domains(host: str) -> list[str]:
    # a.b.c → a.b.c, b.c, c: a table may list a domain or one host of it.
    labels = host.rstrip(".").lower().split(".")
    return [".".join(labels[n:]) for n in range(len(labels))]


def _in_query(query: str, platform: Platform) -> str:
    return parse_qs(query).get(platform.query, [""])[0] if platform.query else ""


def _in_path(path: str, platform: Platform) -> str:
    for segment in (unquote(p) for p in path.split("/") if p):
        if segment.lower() in platform.never:
            return ""
        if segment.lower() not in platform.skip:
            return segment
    return ""
