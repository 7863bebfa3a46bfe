"""The evaluation of one page: its host, its owner, its text, and its stance on the claim."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from agents.evidence.claim import STORY_TIME, Claim
from agents.evidence.compiled import Compiled
from agents.evidence.entities import names_in, tickers_in
from agents.evidence.owners import addresses_of, owner_of, owners_of
from agents.evidence.passages import corrects_itself, passage_of
from agents.evidence.word_rules import WordRules
from agents.text.grammar import READ_LIMIT
from agents.text.hosts import brand_of, canonical_url, host_of, path_of, registrable_domain
from agents.text.matching import Shape, fold_han, has_cjk, near_duplicates, units
from schemas.config import Entity
from schemas.evidence import Credibility, Page, SearchReference, SearchResult, Stance

FRESH_BEFORE = timedelta(days=3)
"""Maximum age at which a page that says the opposite is a denial. An older one describes the earlier state."""
_URL_DATE = re.compile(r"(?<![0-9])(20[12]\d)[/\-_]?(0[1-9]|1[0-2])[/\-_]?(0[1-9]|[12]\d|3[01])(?![0-9])")
POST_TIME = timedelta(hours=12)
"""Time during which the news may repeat a disowned post. The SEC's own approval came 24 hours after the forged one."""
_TAKEN_OVER = re.compile(
    r"\baccounts?\b[^.!?]{0,40}\b(?:compromised|hacked|breached|hijacked|taken over)|(?:compromised|hacked|hijacked) account"
    r"|账[号户][^。!?]{0,12}(?:被盗|被黑|遭黑|入侵|盗用|劫持)"
)
"""A report that an account was compromised."""
SNIPPET = 300
"""Characters of a page's text that its reference keeps."""
_TRUST: dict[Credibility, int] = {"high": 3, "medium": 2, "unknown": 1, "low": 0}
_LATIN_WORDS = re.compile(r"[a-z0-9]+")
_LEGAL_FORMS = frozenset(
    {"inc", "incorporated", "corp", "corporation", "co", "company", "ltd", "limited", "llc", "lp", "plc", "sa", "ag", "nv", "se",
     "form", "annual", "quarterly", "current", "sec"}
)  # fmt: skip
"""Words that may follow a registrant's name in a filing's title without changing the name."""
_SLUG = re.compile(r"[^a-z0-9]+")
_NAMED_EVENTS = frozenset({"listing", "partnership", "product", "funding", "airdrop"})


class Material:
    """The input of the evaluation: a search result or a reference of an earlier round, with its main text if opened."""

    __slots__ = ("earlier", "opened", "published", "result", "text")

    def __init__(self, result: SearchResult, earlier: SearchReference | None = None, page: Page | None = None) -> None:
        self.result, self.earlier, self.opened = result, earlier, page is not None
        self.published = published_at(result)
        if self.published is None and page is not None and page.published_at is not None:
            self.published = utc(page.published_at)
        self.text = result.snippet if page is None else f"{result.snippet}\n{page.text}"


class JudgedPage:
    """A usable page and its marks. Mutable, because quality control and independence fill in their fields later."""

    def __init__(self, material: Material, as_of: datetime, order: int) -> None:
        result = material.result
        self.result, self.published, self.as_of, self.order = result, material.published, as_of, order
        self.host = host_of(result.url)
        self.domain = registrable_domain(self.host)
        self.owner = self.passage = ""
        self.speaker: str | None = None
        self.address = canonical_url(result.url)
        heading, snippet = fold_han(result.title), fold_han(result.snippet[:READ_LIMIT])
        self.heading, self.earlier = heading, material.earlier
        self.body = fold_han(material.text[:READ_LIMIT]) if material.opened else snippet
        self.text = f"{heading} {self.body}".strip()
        self.title = " ".join(units(heading))
        # Duplicates are found by the search results, never by an opened page, whose text includes much of its site.
        self.shape = Shape(snippet, folded=True)
        self.head = snippet[:SNIPPET]
        self.words = frozenset(self.title.split()) | (
            frozenset(units(self.body)) if material.opened else self.shape.singles
        )
        self.credibility: Credibility = "unknown"
        self.stance: Stance = "unrelated"
        self.related = False
        self.official = self.official_host = self.own_page = self.independent = False
        self.trust, self.quality = 0, 30.0

    def looks_like(self, other: JudgedPage, same: float) -> bool:
        """Return whether both contents are the same text, by the bound ``same`` of :func:`near_duplicates`.

        Earlier rounds keep only heads, so heads are compared across rounds.
        """
        if (self.earlier is None) == (other.earlier is None):
            return near_duplicates(self.shape, other.shape, same)
        return near_duplicates(Shape(self.head, folded=True), Shape(other.head, folded=True), same)

    @property
    def age(self) -> timedelta | None:
        """Age at the case's time; None for a page without a date."""
        return None if self.published is None else self.as_of - self.published


class Judge:
    """The rules of page evaluation for one claim."""

    def __init__(self, claim: Claim, tables: Compiled) -> None:
        self._claim, self._tables = claim, tables
        self._as_of = utc(claim.as_of)
        self.source_addresses, self.source_owners = addresses_of(claim), owners_of(claim, tables.directory)
        speaking = tables.entities.speaking(claim)
        self._speaking = {id(e) for e in speaking}
        self._speakers = frozenset(d.lower() for e in speaking for d in e.domains)
        parties = tables.entities.parties(claim)
        self._party_ids = {id(e) for e in parties}
        party_texts = (
            claim.text,
            claim.subject,
            claim.entity or "",
            *(n for e in parties for n in (e.name, *e.aliases)),
        )
        self._party_words = frozenset(_LATIN_WORDS.findall(" ".join(party_texts).lower())) | _LEGAL_FORMS
        self._party_names = tuple(sorted({fold_han(n).casefold() for e in parties for n in (e.name, *e.aliases)}))
        self._brands = frozenset(brand_of(d) for e in parties for d in e.domains) - tables.spoof_affixes
        self._names = self._claim_names()
        self._slugs = frozenset(s for s in (_SLUG.sub("", n.lower()) for n in self._names | self._brands) if len(s) > 1)
        # The claim is about the party that issues the asset; the other parties are its venue or its partner.
        others = [e for e in parties if claim.asset.upper() not in e.assets]
        self._subjects = self._subject_names([n for e in others for n in (e.name, *e.aliases)])
        names = self._subjects | {n.lower() for e in parties for n in (e.name, *e.aliases)} | self._slugs
        self._sense = tables.grammar.sense(claim.text, frozenset(names))
        self._units = frozenset(units(fold_han(claim.text)))
        claimed = fold_han(claim.text).casefold()
        self._names_a_subject = any(_names(n, claimed, self._units) for n in self._subjects)
        # “Jump rejects talk of closure” names Jump Crypto: a distinctive first word is enough.
        first = fold_han(claim.entity or "").split(" ")[0]
        is_distinctive = len(first) > 3 and first.isascii() and first.lower() not in tables.name_stopwords
        whole = " " in (claim.entity or "").strip() and first.lower() not in tables.ambiguous_names
        self._entity_words = frozenset({first.lower()} if is_distinctive and whole else ())
        self._carry = WordRules(claim, tables, self._sense, self.names_subject)

    def is_established(self, url: str) -> bool:
        """Return whether the table of publishers vouches for the host (high or medium)."""
        return _TRUST[self._tables.credibility.of(host_of(url), False)] > 1

    def imitates(self, url: str) -> bool:
        listed = self._tables.credibility.lists(host_of(url))
        return not listed and self._tables.imitations.imitates(url, self._brands, self._claim.asset)

    def page(self, material: Material, order: int) -> JudgedPage:
        """Return the page with its owner, its credibility and its stance by the word rules. ``order``: its place in the results.

        A reference of an earlier round keeps what was read from its whole text, unless it was opened since.
        """
        result, earlier = material.result, material.earlier
        page = JudgedPage(material, self._as_of, order)
        page.official_host = (
            self._tables.directory.cik_of(result.url) is None
            and page.domain in self._speakers
            and page.host.isascii()
            and not self._tables.is_user_content(result.url)
        )
        outlet = self._tables.directory.outlet_of_account(result.url)
        host = page.host if outlet is None else outlet.domain
        page.credibility = self._tables.credibility.of(host, page.official_host)
        page.trust = _TRUST[page.credibility]
        page.own_page = self._is_claimants_own(page)
        self._attribute(page, material)
        if earlier is not None and earlier.carries is not None and not material.opened:
            page.stance, page.related, page.passage = earlier.stance, earlier.carries, earlier.passage
            return page
        page.related = self._is_related(page)
        fresh = page.age is None or page.age <= FRESH_BEFORE
        denies = (
            page.related
            and not self._is_before_story(page)
            and self._tables.grammar.denies(self._sense, page.heading, page.body, fresh=fresh)
        )
        passage = page.passage or result.snippet
        page.stance = self._carry.stance(result.title, passage, speaker=page.speaker, denies=denies)
        if page.stance == "supports" and self._is_corrected(page, material):
            page.stance = "hedges"
        return page

    def _is_before_story(self, page: JudgedPage) -> bool:
        """Return whether a page is too old to deny this event, so that its denial is about another one.

        A page that calls an account's post false is about that post, not about a later one that confirms the claim.
        """
        if page.age is None or not self._claim.begins_story:
            return False
        disowns = not self._sense.account_hack and _TAKEN_OVER.search(page.text.casefold()) is not None
        return page.age > (POST_TIME if disowns else STORY_TIME)

    def _is_corrected(self, page: JudgedPage, material: Material) -> bool:
        # Words alone cannot say what a page retracts of itself. News that denies or corrects uses the same words.
        if self._claim.modality in {"denied", "corrected"}:
            return False
        return corrects_itself(f"{page.result.title}\n{material.text}")

    def _attribute(self, page: JudgedPage, material: Material) -> None:
        url, directory = page.result.url, self._tables.directory
        page.owner = owner_of(url, directory)
        page.passage = passage_of(material.text, self._units)
        # On a platform the account is the speaker. Elsewhere, user content on an official host is not official.
        is_own = page.official_host or directory.account_of(url) is not None or not self._tables.is_user_content(url)
        own = directory.speakers_of(url) if is_own else ()
        speaking = [e for e in own if id(e) in (self._party_ids if directory.cik_of(url) else self._speaking)]
        page.speaker = speaking[0].name if speaking else self._registrant(page)
        if page.official_host and page.speaker is None:
            page.speaker = own[0].name if own else page.owner
        page.official = page.official_host or page.speaker is not None
        if page.official:
            page.own_page, page.credibility, page.trust = False, "high", _TRUST["high"]

    def void_compromised(self, pages: list[JudgedPage]) -> set[str]:
        """Remove the official status of an account's page if another page reports, within 48 hours, that it was compromised.

        The report must be an official page or one of high or medium credibility. Return the flag ``compromised_account`` if
        that happened.
        """
        flags = set()
        for page in pages:
            account = self._tables.directory.entity_of_account(page.result.url)
            if page.speaker is None or account is None:
                continue
            names = [fold_han(n).casefold() for n in (account.name, *account.aliases)]
            if any(p is not page and self._reports_takeover(p, page, names) for p in pages):
                page.official, page.speaker, page.credibility, page.trust = False, None, "low", _TRUST["low"]
                flags.add("compromised_account")
        return flags

    def _reports_takeover(self, report: JudgedPage, page: JudgedPage, names: list[str]) -> bool:
        if report.trust < _TRUST["medium"] or (self._tables.is_user_content(report.result.url) and not report.official):
            return False
        near = (
            report.published is None or page.published is None or abs(report.published - page.published) <= STORY_TIME
        )
        low = report.text.casefold()
        return near and _TAKEN_OVER.search(low) is not None and any(n in low for n in names)

    def _registrant(self, page: JudgedPage) -> str | None:
        # EDGAR names the filer in the title. A filing speaks for its registrant, never for the commission.
        if self._tables.directory.cik_of(page.result.url) is None:
            return None
        low = page.heading.casefold()
        named = self._tables.entities.mentioned(page.heading)
        party = next((e for e in named if id(e) in self._party_ids), None)
        names = self._subjects if party is None else {fold_han(n).casefold() for n in (party.name, *party.aliases)}
        in_title = [n for n in sorted(names) if len(n) > 3 and n in low]
        if any(self._continues(n, page.heading) for n in in_title):
            return None
        return party.name if party is not None else next(iter(in_title), None)

    def _continues(self, name: str, heading: str) -> bool:
        """Return whether a name continues in the title: “Northwind Beverages, Inc.” is not the Northwind of the claim."""
        after = [m[1] for m in re.finditer(rf"(?i:{re.escape(name)})\s+([A-Z][A-Za-z]+)", heading)]
        return any(w.lower() not in self._party_words for w in after)

    def names_subject(self, text: str) -> bool:
        """Return whether a folded text names the subject of the claim: asset or subject, and also the party if both matter.

        A text about “Binance lists PEPE” must name PEPE and Binance.
        """
        low, words = text.casefold(), frozenset(units(text))
        subject = any(_names(n, low, words) for n in self._subjects)
        party = any(_names(n, low, words) for n in self._party_names) or not self._entity_words.isdisjoint(words)
        if self._names_a_subject and self._party_names and self._claim.event_type in _NAMED_EVENTS:
            return subject and party
        return subject or party

    def _claim_names(self) -> frozenset[str]:
        claim = self._claim
        given = {claim.asset, claim.asset_name, claim.entity or ""}
        return frozenset(fold_han(n) for n in (*given, *self._asset_names()) if n) | names_in(
            claim.text, self._tables.name_stopwords
        )

    def _asset_names(self) -> tuple[str, ...]:
        return self._tables.asset_names.get(self._claim.asset.upper(), ())

    def _subject_names(self, party_names: list[str]) -> frozenset[str]:
        parties = {w for n in party_names for w in units(fold_han(n))}
        asset = {n.lower() for n in (self._claim.asset, self._claim.asset_name, *self._asset_names()) if n}
        return frozenset(asset) | frozenset(n.lower() for n in self._names if not set(units(fold_han(n))) <= parties)

    def _is_claimants_own(self, page: JudgedPage) -> bool:
        if page.official_host:
            return False
        parts = [p for p in path_of(page.result.url).split("/") if p][:2]
        if page.domain in self._tables.claimant_platforms:
            first = page.host.split(".")[0]
            return any(self._is_own_name(x.lstrip("@")) for x in (first, *parts))
        if page.domain in self._tables.entities.by_domain or self._tables.credibility.lists(page.host):
            return False
        return self._is_own_name(brand_of(page.domain))

    def _is_own_name(self, label: str) -> bool:
        affixes = self._tables.claimant_affixes
        tokens = [t for t in re.split(r"[-_.]", label) if t]
        if any(t in self._slugs for t in tokens) and all(t in self._slugs or t in affixes for t in tokens):
            return True
        joined = "".join(tokens)
        return joined in self._slugs or any(
            len(s) >= 3 and ((joined.startswith(s) and joined[len(s) :] in affixes)
                             or (joined.endswith(s) and joined[: -len(s)] in affixes))
            for s in self._slugs
        )  # fmt: skip

    def _is_related(self, page: JudgedPage) -> bool:
        text = page.text
        # An address such as /news/nansen-layoffs names its subject as well as a title does.
        path = _path_words(page.result.url)
        low = f"{text} {path}".casefold()
        words = page.words | frozenset(path.split())
        names_subject = any(_names(n, low, words) for n in self._subjects) or not self._entity_words.isdisjoint(words)
        if names_subject:
            return True
        same_script = has_cjk(self._claim.text) == has_cjk(text)
        parties = self._parties_in(text, low, path)
        if parties or page.official_host:
            if any(page.domain not in e.domains for e in parties) and not self._is_of_other_asset(text):
                return True
            # “Kraken lists PEPE” says nothing of LUM: for such claims the page must name what the claim is about.
            strict = same_script and self._names_a_subject and self._claim.event_type in _NAMED_EVENTS
            return not strict or self._tables.grammar.shares_topic(self._sense, text.lower())
        if self._tables.grammar.speaks_of(self._sense, text.lower()) or not same_script:
            return True
        return len(words & self._units) >= 3 or self._tables.grammar.shares_topic(self._sense, text.lower(), least=2)

    def _parties_in(self, text: str, low: str, path: str) -> list[Entity]:
        # Most pages name no party, and a plain substring search is far cheaper than finding the entities.
        if not any(name in low for name in self._party_names):
            return []
        named = self._tables.entities.mentioned(f"{text} | {path.title()}")
        return [e for e in named if id(e) in self._party_ids]

    def _is_of_other_asset(self, text: str) -> bool:
        return self._claim.event_type in _NAMED_EVENTS and bool(tickers_in(text) - {self._claim.asset.upper()})


def _path_words(url: str) -> str:
    return " ".join(w for w in re.split(r"[^a-z0-9]+", path_of(url)) if not w.isdigit())


def _names(name: str, low: str, words: frozenset[str]) -> bool:
    return name in words if name.isascii() and name.isalnum() else name in low


def utc(moment: datetime) -> datetime:
    """Return the time in UTC. A time without a zone is taken as UTC."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def published_at(result: SearchResult) -> datetime | None:
    """Return the publication time of a page (UTC): the provider's date, or a date in its address, or None."""
    if result.published_at is not None:
        return utc(result.published_at)
    match = _URL_DATE.search(result.url)
    if match is None:
        return None
    try:
        return datetime(int(match[1]), int(match[2]), int(match[3]), tzinfo=UTC)
    except ValueError:
        return None
