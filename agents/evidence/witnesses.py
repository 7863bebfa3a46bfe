"""From references to witnesses: a critic's reading, checked against the page, or the reading of the word rules alone.

Raising the confidence needs both; lowering it needs either. A page supports the claim only with a quote that it contains,
about the same subject and event, and with no amount that differs. A denial that only the word rules found counts unless
the critic says otherwise. Code derives the stance from the critic's slots
(:func:`agents.planning.critic_reading.stance_by_slots`) and compares amounts itself, whatever the critic says.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec
from msgspec.structs import replace

from agents.evidence.claim import STORY_TIME, Claim
from agents.evidence.compiled import Compiled, compiled
from agents.evidence.entities import AUTHORITIES, chinese_name, names_in
from agents.evidence.owners import addresses_of, owner_of, owners_of
from agents.evidence.pages import utc
from agents.evidence.passages import folded, names_any, sentences_of
from agents.evidence.verdict import CritiqueVerdict, Judgement, Measured, Reading, Witness, judge_witnesses
from agents.text.amounts import ABOVE, Amounts, Figure, differing, figures, main_figures
from agents.text.hosts import canonical_url, host_of, registrable_domain
from agents.text.matching import fold_han
from schemas.config import Entity, Snapshot
from schemas.evidence import PageStance, ReadStance, SearchReference
from schemas.signals import NO_ASSET

MAX_FAILED_SHARE = 1 / 3
"""Share of a critic's stances with a quote that is not on the page, above which its reading cannot confirm."""


MAX_SHOWN = 6
"""Maximum references that one critique reads."""


class CheckedPage(msgspec.Struct, frozen=True, kw_only=True):
    """One reference with its checked stance. ``dropped_quote``: the quote of its stance is not on the page.

    ``figures``: the page's amount and the claim's, if code could compare them and they differ.
    ``own_word``: it is the page of the news itself, published by a party or an authority.
    """

    reference: SearchReference
    stance: ReadStance
    reading: PageStance | None = None
    quoted: bool = False
    dropped_quote: bool = False
    own_word: bool = False
    flags: tuple[str, ...] = ()
    figures: tuple[float, float] | None = None


def judge_evidence(
    claim: Claim,
    pages: Sequence[CheckedPage],
    *,
    snapshot: Snapshot,
    by_words: bool,
    critic: CritiqueVerdict | None = None,
    measured: Measured | None = None,
    partly_refuted: bool = False,
    unread: bool = False,
) -> Judgement:
    """Return the judgement of the claim by its references, as :func:`check_pages` returns them.

    ``by_words``: no critic read the pages. ``unread``: a critic should have read them, so the confidence is not raised and the
    verdict is at most likely. The same applies if more than a third of the critic's quotes failed: of those on official and
    established pages if there are any, else of all.
    """
    reader = Reader(
        by_words=by_words,
        critic=critic,
        measured=measured,
        partly_refuted=partly_refuted,
        unread=unread,
        threshold=snapshot.search_multi_source_threshold,
    )
    return judge_evidence_with(compiled(snapshot.tables), claim, tuple(pages), reader)


class Reader(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of :func:`judge_evidence` beside claim and pages. ``threshold``: number of sources that confirm."""

    by_words: bool
    critic: CritiqueVerdict | None
    measured: Measured | None
    partly_refuted: bool
    unread: bool
    threshold: int


def judge_evidence_with(tables: Compiled, claim: Claim, pages: tuple[CheckedPage, ...], reader: Reader) -> Judgement:
    """Return the same as :func:`judge_evidence`, from arguments that can be compared by value."""
    sources = _sources(pages, tables)
    addresses, owners = addresses_of(claim), owners_of(claim, tables.directory)
    usable = [
        page
        for page in pages
        if page.own_word
        or (
            canonical_url(page.reference.url) not in addresses
            and not (page.stance == "supports" and owner_of(page.reference.url, tables.directory) in owners)
        )
    ]
    own_word = any(page.own_word for page in pages)
    # User content on a party's host counts only if no page supports the claim: it can lower the verdict, never raise it.
    forums = all(page.stance != "supports" for page in usable)
    witnesses = [
        _witness(claim, page, sources[page.reference.reference_number], tables, forums=forums) for page in usable
    ]
    # These pages decide a confirmation, so a failed quote on an unrated page does not bar it.
    vouched = [
        page for page, w in zip(usable, witnesses, strict=True) if _is_read(page) and (w.official or w.established)
    ]
    judgement = judge_witnesses(
        witnesses,
        Reading(
            # The critic was not shown the party's own page, which is enough.
            critic=None if own_word and reader.critic == "not_enough_evidence" else reader.critic,
            by_words=reader.by_words,
            unread=reader.unread,
            denies_or_corrects=claim.modality in {"denied", "corrected"},
            quotes_failed=too_many_unquoted(vouched or pages),
            partly_refuted=reader.partly_refuted,
            measured=reader.measured,
            threshold=reader.threshold,
        ),
    )
    flags = dict.fromkeys((*judgement.flags, *(f for page in pages for f in page.flags)))
    return replace(judgement, flags=tuple(flags))


def check_pages(
    claim: Claim, references: Sequence[SearchReference], stances: Sequence[PageStance] | None, snapshot: Snapshot
) -> list[CheckedPage]:
    """Return each reference with its checked stance. ``stances``: the critic's reading, None if no critic read the pages."""
    return check_pages_with(
        compiled(snapshot.tables), claim, tuple(references), None if stances is None else tuple(stances)
    )


def check_pages_with(
    tables: Compiled, claim: Claim, references: tuple[SearchReference, ...], stances: tuple[PageStance, ...] | None
) -> list[CheckedPage]:
    """Return the same as :func:`check_pages`, from arguments that can be compared by value."""
    if stances is None:
        return [CheckedPage(reference=r, stance=r.stance) for r in references]
    by_number = {s.reference_number: s for s in stances}
    check = _QuoteCheck(claim, tables)
    return [_checked(r, by_number.get(r.reference_number), check) for r in references]


def too_many_unquoted(pages: Sequence[CheckedPage]) -> bool:
    """Return whether more than a third of the critic's stances have a quote that is not on their page."""
    read = [page for page in pages if _is_read(page)]
    return sum(page.dropped_quote for page in read) > MAX_FAILED_SHARE * len(read)


def _is_read(page: CheckedPage) -> bool:
    return page.reading is not None and page.reading.stance != "unrelated"


def shown_to_critic(references: Sequence[SearchReference], most: int = MAX_SHOWN) -> tuple[SearchReference, ...]:
    """Return the references that a critic reads, in their order: official ones, then one per owner by quality."""
    owners: set[str] = set()
    ranked: list[tuple[bool, int, SearchReference]] = []
    for r in sorted(references, key=lambda r: (not r.official, -r.quality_score, r.reference_number)):
        ranked.append((r.owner in owners, len(ranked), r))
        owners.add(r.owner)
    chosen = {r.reference_number for _, _, r in sorted(ranked, key=lambda entry: entry[:2])[:most]}
    return tuple(r for r in references if r.reference_number in chosen)


_SHARE = re.compile(r"(?<![\d.,])(\d+(?:\.\d+)?)(?= ?(?:%|percent\b|per cent\b))")
_BOUND = re.compile(
    r"(?:more than|over|at least|above|exceed(?:s|ing)?|upwards of|超过?|逾|至少|突破) ?[$€£¥]?\d"
    r"|\d[^\s,,。、]{0,8}(?:以上|超|を超)"
)


class _QuoteCheck:
    """The check that a quote is on its page and about the claim's subject, asset or amount."""

    def __init__(self, claim: Claim, tables: Compiled) -> None:
        parties = tables.entities.parties(claim)
        self._names, self._amounts = _names(claim, parties, tables), Amounts(fold_han(claim.text).lower()).given
        self._shares = frozenset(map(float, _SHARE.findall(folded(claim.text))))
        self._at_least = frozenset(a for a in self._amounts if _BOUND.search(folded(claim.text)))
        self._coins = frozenset({claim.asset.lower()} - {NO_ASSET.lower()})
        self._claimed = main_figures(figures(folded(claim.text), self._coins), claim.amount, claim.amount_unit)
        self._since = utc(claim.as_of) - STORY_TIME if claim.begins_story else None
        self._entities = tables.entities
        self._parties = {e.name for e in parties}

    def _figures(self, sentence: str) -> bool:
        """Return whether a sentence gives the claim's percentage, or an amount somewhat above one claimed as a bound."""
        given = Amounts(sentence).given if self._at_least else ()
        return not self._shares.isdisjoint(map(float, _SHARE.findall(sentence))) or any(
            least <= a <= ABOVE * least for a in given for least in self._at_least
        )

    def word(self, reference: SearchReference) -> ReadStance:
        """Return the word rules' stance on a page. A denial from before the story counts as unrelated: it may be about another event."""
        before = self._since is not None and is_before(reference, self._since)
        return "unrelated" if reference.stance == "denies" and before else reference.stance

    def differing(self, sentences: Sequence[str]) -> tuple[Figure, Figure] | None:
        """Return the claim's figure and the quote's figure if they can be compared and differ; else None."""
        return (
            differing(self._claimed, [f for s in sentences for f in figures(s, self._coins)]) if self._claimed else None
        )

    def passes(self, sentences: Sequence[str], reference: SearchReference) -> bool:
        if not sentences:
            return False
        # On its own page the party need not name itself.
        if reference.official or any(names_any(s, self._names, self._amounts) or self._figures(s) for s in sentences):
            return True
        # A page whose title names the subject continues with “it” and “the bank” until it names another entity.
        if not names_any(folded(reference.title), self._names):
            return False
        # Names are searched in the page as written: “near” and “sec” are ordinary words unless capitalised.
        named = self._entities.mentioned(f"{reference.title} | {reference.passage or reference.snippet}")
        others = {folded(n) for e in named if e.name not in self._parties for n in (e.name, *e.aliases) if len(n) > 1}
        return not any(names_any(s, others) for s in sentences)


def counted(word: ReadStance, reading: PageStance | None, *, quoted: bool) -> ReadStance:
    """Return the stance that counts, from the word rules' stance ``word`` and the critic's ``reading``.

    ``quoted``: the critic's quote is on the page. Without it, only a denial found by the word rules counts.
    """
    left: ReadStance = "denies" if word == "denies" else "unrelated"
    if reading is None:
        return left
    if reading.stance == "unrelated" or not reading.same_subject:
        return "unrelated"
    if not quoted:
        return left
    # A denial of another event denies nothing of this one.
    if reading.stance in {"supports", "denies"} and not reading.same_event:
        return "unrelated"
    return "hedges" if reading.stance == "supports" and reading.amount == "differs" else reading.stance


def is_before(reference: SearchReference, moment: datetime) -> bool:
    """Return whether a page is dated before the moment."""
    return reference.published_at is not None and utc(reference.published_at) < moment


def _checked(reference: SearchReference, reading: PageStance | None, check: _QuoteCheck) -> CheckedPage:
    word = check.word(reference)
    if reading is None or reading.stance == "unrelated" or not reading.same_subject:
        return CheckedPage(reference=reference, stance=counted(word, reading, quoted=False), reading=reading)
    sentences = sentences_of(reading.quote or "", reference.title, reference.passage or reference.snippet)
    quoted = check.passes(sentences, reference)
    stance = counted(word, reading, quoted=quoted)
    apart = check.differing(sentences) if stance == "supports" or reading.amount == "differs" else None
    if apart is not None and stance == "supports":
        stance = "hedges"
    differs = quoted and stance == "hedges" and (reading.amount == "differs" or apart is not None)
    flags = {
        "amount_differs": differs,
        "stance_disputed": stance == "supports" and reference.stance == "denies",
    }
    return CheckedPage(
        reference=reference,
        stance=stance,
        reading=reading,
        quoted=quoted,
        dropped_quote=not quoted,
        flags=tuple(name for name, holds in flags.items() if holds),
        figures=(apart[1].value, apart[0].value) if differs and apart is not None else None,
    )


def _names(claim: Claim, parties: Sequence[Entity], tables: Compiled) -> frozenset[str]:
    """Return the folded names of the claim's subject, parties and asset."""
    given = [claim.asset, claim.asset_name, claim.entity or "", claim.subject]
    given += [n for e in parties for n in (e.name, *e.aliases)]
    given += tables.asset_names.get(claim.asset.upper(), ())
    given += names_in(claim.text, tables.name_stopwords) | set(_WORD_NAMES.findall(claim.text))
    given += _QUOTED_NAMES.findall(claim.text)
    given += _HEADED_BY.findall(claim.text) if _KANA.search(claim.text) else []
    return frozenset(f for n in given if n and n != NO_ASSET and len(f := folded(n)) > 1)


_QUOTED_NAMES = re.compile(r"[“「『‘\"]([^”」』’\"]{3,30})[”」』’\"]")
_KANA = re.compile(r"[\u3040-\u30ff]")
_HEADED_BY = re.compile(
    r"\A(?:【[^】]*】|\W)*(?![〇一二三四五六七八九十百千万億兆]+[円枚件人年月日])([\u4e00-\u9fff]{2,})"
)
"""A Japanese headline begins with its subject, where that is no figure and not written in katakana or Latin letters."""
_WORD_NAMES = re.compile(r"[\u30a0-\u30ff]{3,}|[\uac00-\ud7af]{2,}")
"""Korean words and katakana runs of the news: names there have no capitals, and the tables hold few of them."""


def _witness(claim: Claim, page: CheckedPage, source: int, tables: Compiled, *, forums: bool) -> Witness:
    reference, reading = page.reference, page.reading
    established = _is_established(reference, tables) and not _repeats_wire(page, tables)
    published = None if reference.published_at is None else utc(reference.published_at)
    owner = None if tables.is_user_content(reference.url) and not forums else _speaking_owner(claim, page, tables)
    speaker, official = reference.speaker or owner, reference.official or owner is not None
    # A page that cites the news' own origin is no more a witness than that origin.
    outlet = None if reading is None or not reading.cites or not claim.source_url else _domain_of(reading.cites, tables)
    retells = outlet is not None and outlet in {registrable_domain(host_of(a)) for a in addresses_of(claim)}
    if speaker is None and established and page.quoted and reading is not None and reading.speaks_for != "other":
        speaker = _named(reading.cites or claim.subject or claim.entity or "", tables)
    unfit = (not official and retells) or not _names_asset(claim, page, tables)
    return Witness(
        stance="hedges" if page.stance == "supports" and unfit else page.stance,
        source=source,
        official=official,
        speaker=speaker,
        established=established,
        age=None if published is None else utc(claim.as_of) - published,
        published=published,
        quoted=page.quoted,
    )


def _names_asset(claim: Claim, page: CheckedPage, tables: Compiled) -> bool:
    """Return whether a page names the asset, if the news names one that is not the subject's own.

    “Circle launches Arc, with DOGE as gas” is not supported by a page about Arc alone: an order would buy DOGE.
    """
    asset = claim.asset.upper()
    if page.own_word or asset == NO_ASSET:
        return True
    parties = [e for name in (claim.subject, claim.entity) if name for e in tables.entities.named(name)]
    own = {a for e in parties for a in e.assets} | {
        tables.ticker_of(n) for n in (claim.subject, claim.entity or "") if n
    }
    if asset not in tables.asset_names:  # “Kuru bridge” is KURU's
        own |= {word.upper() for word in re.findall(r"[A-Za-z0-9]+", claim.subject)}
    reference = page.reference
    text = f"{reference.title} | {reference.passage or reference.snippet}"
    named = asset in own or not _mentions_asset(claim, claim.text, tables) or _mentions_asset(claim, text, tables)
    return named or _moves_any_coin(claim, tables)


_ABOUT_AN_ASSET = frozenset({"listing", "partnership", "product", "funding", "airdrop", "governance", "regulation"})
"""Event types that always concern an asset."""
_WITH_A_COIN = frozenset(
    {"launch", "list", "delist", "buy", "sell", "acquire", "move", "fund", "partner", "support", "hold", "airdrop", "mint"}
    | {"approve", "file", "sign", "ban", "license", "freeze"}
)  # fmt: skip
"""Acts (groups of the lexicon) that involve a coin, so a page must name it."""
_OF_LOSSES = {"hack": frozenset({"hack"}), "liquidation": frozenset({"liquidate", "bankrupt", "halt"})}
_OF_ALL_MARKETS = re.compile(
    r"\b(?:interest rates?|rate (?:cut|hike)s?|basis points?|inflation|cpi|ppi|pce|payrolls?|unemployment|gdp|tariffs?)\b"
    r"|降息|加息|利率|基点|通胀|非农|失业率|关税|利下げ|利上げ|금리"
)


def _moves_any_coin(claim: Claim, tables: Compiled) -> bool:
    """Return whether pages report the event without the asset: a loss, all markets, or an authority's act without a coin."""
    if claim.event_type in _ABOUT_AN_ASSET:
        return False
    says = tables.grammar.sense(claim.text).says
    if not _OF_LOSSES.get(claim.event_type, frozenset()).isdisjoint(says):
        return True
    if not _WITH_A_COIN.isdisjoint(says):
        return False
    of_all = claim.event_type == "macro" and _OF_ALL_MARKETS.search(fold_han(claim.text).lower()) is not None
    return of_all or any(e.kind in AUTHORITIES for e in tables.entities.parties(claim))


def _mentions_asset(claim: Claim, text: str, tables: Compiled) -> bool:
    written, asset = fold_han(text), claim.asset.upper()
    if re.search(rf"(?<![A-Za-z0-9]){re.escape(asset)}(?:USDT?|USDC|KRW|BTC)?(?![A-Za-z0-9])", written):
        return True
    names = {n for n in (claim.asset_name, *tables.asset_names.get(asset, ())) if len(n) > 2 or not n.isascii()}
    spelled = {folded(n) for n in names if n.upper() != asset}
    return names_any(folded(written), spelled | {f"{n}s" for n in spelled if n.isascii()})


def speakers_of(claim: Claim, pages: Sequence[CheckedPage], tables: Compiled) -> list[tuple[str | None, str | None]]:
    """Return for each page the party or authority that supports or denies there, and its Chinese name, as judged.

    "" for a speaker that the tables do not name. None for a page without a speaker, and for the page of the news itself,
    which is no witness.
    """
    addresses = addresses_of(claim)

    def speaker(page: CheckedPage) -> tuple[str | None, str | None]:
        witness = _witness(claim, page, 0, tables, forums=False)
        if witness.stance not in {"supports", "denies"} or canonical_url(page.reference.url) in addresses:
            return None, None
        if not witness.speaker:
            return ("" if witness.official else None), None
        # Only names of the tables are returned: a page may call its source anything.
        known = next((e for e in tables.entities.exactly(witness.speaker) if e.name == witness.speaker), None)
        return ("", None) if known is None else (known.name, chinese_name(known))

    return [speaker(page) for page in pages]


def _speaking_owner(claim: Claim, page: CheckedPage, tables: Compiled) -> str | None:
    """Return the page's owner if the critic says that it speaks here and it is a party or a competent authority."""
    reading, url, directory = page.reading, page.reference.url, tables.directory
    if reading is None or reading.speaks_for == "other" or not page.quoted:
        return None
    # Filings and accounts are attributed by code alone: an account may have been taken over.
    if directory.cik_of(url) is not None or directory.account_of(url) is not None:
        return None
    wanted = AUTHORITIES if reading.speaks_for == "authority" else _PARTIES
    concerned = {e.name for e in (*tables.entities.parties(claim), *tables.entities.speaking(claim))}
    return next((e.name for e in directory.speakers_of(url) if e.kind in wanted and e.name in concerned), None)


_PARTIES = frozenset({"company", "exchange", "protocol", "network", "issuer", "payment", "wallet"})


def _domain_of(cited: str, tables: Compiled) -> str | None:
    outlet = tables.directory.outlet_of(cited)
    return None if outlet is None else outlet.domain


def _is_established(reference: SearchReference, tables: Compiled) -> bool:
    # A press wire publishes for whoever pays, and a forum or an authority's mailbox for anybody.
    outlet = tables.directory.outlet_of_host(reference.owner)
    paid = outlet is not None and outlet.wire
    anybodys = tables.is_user_content(reference.url) and not reference.official
    return reference.source_credibility in {"high", "medium"} and not paid and not anybodys


def _repeats_wire(page: CheckedPage, tables: Compiled) -> bool:
    """Return whether the page only carries a press wire's release, for which only its issuer vouches."""
    cited = page.reading.cites if page.reading is not None and page.quoted else None
    outlet = tables.directory.outlet_of(cited) if cited else None
    return outlet is not None and outlet.wire


def _named(name: str, tables: Compiled) -> str:
    entities = tables.entities.named(name) if name else ()
    return entities[0].name if entities else folded(name)


def _sources(pages: Sequence[CheckedPage], tables: Compiled) -> Mapping[int, int]:
    """Return reference number → source. References of one owner, or that cite one text, are one source.

    An unrated page joins the source that it cites; it never merges the sources of established pages.
    """
    by_key: dict[str, int] = {}
    out: dict[int, int] = {}
    established = {page.reference.reference_number: _is_established(page.reference, tables) for page in pages}
    firm: set[int] = set()
    for page in sorted(pages, key=lambda page: not established[page.reference.reference_number]):
        reference = page.reference
        vouched = established[reference.reference_number]
        # All pages of the claimant are one source.
        keys = ["claimant" if reference.own_page else reference.owner or reference.registrable_domain]
        cited = page.reading.cites if page.reading is not None and page.quoted else None
        if cited:
            outlet = f"x.com/{cited[1:].lower()}" if cited.startswith("@") else _domain_of(cited, tables)
            # Established pages that name a spokesperson or a filing did their own reporting; others copy.
            if outlet is not None or not vouched:
                keys.append(outlet or f"cited:{_named(cited, tables)}")
        known = list(dict.fromkeys(by_key[k] for k in keys if k in by_key))
        if not vouched and firm.issuperset(known):
            known = known[:1]
        number = min(known, default=reference.reference_number)
        # A page without a quote supports nothing, so it does not keep sources apart.
        firm |= {number} if (vouched and page.quoted) or not firm.isdisjoint(known) else set()
        for other, source in out.items():
            if source in known:
                out[other] = number
        by_key |= {k: number for k, v in by_key.items() if v in known}
        by_key = dict.fromkeys(keys, number) | by_key
        out[reference.reference_number] = number
    return out
