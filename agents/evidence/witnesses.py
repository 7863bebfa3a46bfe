"""From references to witnesses: what a critic read, checked against the page, or what the word rules read alone.

To raise, both; to lower, either: a page supports only by a quote that it holds, about the same subject and the same event,
and with no amount that differs; a denial that only the word rules read stands unless the critic says otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from agents.evidence.amounts import Amounts
from agents.evidence.carry import CarryRules
from agents.evidence.claim import Claim
from agents.evidence.compiled import Compiled, compiled
from agents.evidence.entities import AUTHORITIES, names_in
from agents.evidence.hosts import canonical_url
from agents.evidence.pages import utc
from agents.evidence.quotes import folded, names_any, sentences_of
from agents.evidence.verdict import CritiqueVerdict, Judgement, Measured, Reading, Witness, judged
from agents.text.matching import fold_han
from schemas.config import Entity, Snapshot
from schemas.evidence import PageStance, ReadStance, SearchReference

MAX_FAILED_SHARE = 1 / 3
"""Share of a critic's stances whose quote is not on the page, above which its reading confirms nothing."""


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """One reference after the checks. ``dropped_quote``: its stance had no quote that the page holds."""

    reference: SearchReference
    stance: ReadStance
    said: PageStance | None = None
    quoted: bool = False
    dropped_quote: bool = False
    flags: tuple[str, ...] = ()


def judge_evidence(
    claim: Claim,
    references: Sequence[SearchReference],
    said: Sequence[PageStance] | None,
    *,
    snapshot: Snapshot,
    critic: CritiqueVerdict | None = None,
    measured: Measured | None = None,
    partly_refuted: bool = False,
) -> Judgement:
    """Judge the claim by its references. ``said`` is the critic's reading, None where none was asked."""
    tables = compiled(snapshot.tables)
    heard = hear(claim, references, said, tables)
    told = [h for h in heard if h.said is not None and h.said.stance != "unrelated"]
    failed = sum(h.dropped_quote for h in told) > MAX_FAILED_SHARE * len(told)
    sources = _sources(heard, tables)
    origin = canonical_url(claim.source_url) if claim.source_url else None
    usable = [h for h in heard if canonical_url(h.reference.url) != origin]
    witnesses = [_witness(claim, h, sources[h.reference.reference_number], tables) for h in usable]
    found = judged(
        witnesses,
        Reading(
            critic=critic,
            by_words=said is None,
            denies_or_corrects=claim.modality in {"denied", "corrected"},
            quotes_failed=failed,
            partly_refuted=partly_refuted,
            measured=measured,
            threshold=snapshot.search_multi_source_threshold,
        ),
    )
    flags = dict.fromkeys((*found.flags, *(f for h in heard for f in h.flags)))
    return msgspec.structs.replace(found, flags=tuple(flags))


def hear(
    claim: Claim, references: Sequence[SearchReference], said: Sequence[PageStance] | None, tables: Compiled
) -> list[Heard]:
    """Return each reference with the stance that stands."""
    if said is None:
        words = CarryRules(claim, tables)
        return [Heard(reference=r, stance=words.stance(r)) for r in references]
    by_number = {s.reference_number: s for s in said}
    check = _QuoteCheck(claim, tables)
    return [_checked(r, by_number.get(r.reference_number), check) for r in references]


class _QuoteCheck:
    """Whether a quote stands on its page and is about the claim's subject, asset or amount."""

    def __init__(self, claim: Claim, tables: Compiled) -> None:
        parties = tables.entities.parties(claim)
        self._names, self._amounts = _names(claim, parties, tables), Amounts(fold_han(claim.text).lower()).given
        self._entities = tables.entities
        self._parties = {e.name for e in parties}

    def passes(self, quote: str, reference: SearchReference) -> bool:
        sentences = sentences_of(quote, reference.title, reference.passage or reference.snippet)
        if not sentences:
            return False
        # On its own page the party need not name itself.
        if reference.official or any(names_any(s, self._names, self._amounts) for s in sentences):
            return True
        # A page whose title names the subject goes on with “it” and “the bank”, until it names somebody else.
        if not names_any(folded(reference.title), self._names):
            return False
        # Names are found in the page as it is written, since “near” and “sec” are words where they are not capitalised.
        named = self._entities.mentioned(f"{reference.title} | {reference.passage or reference.snippet}")
        others = {folded(n) for e in named if e.name not in self._parties for n in (e.name, *e.aliases) if len(n) > 1}
        return not any(names_any(s, others) for s in sentences)


def _checked(reference: SearchReference, said: PageStance | None, check: _QuoteCheck) -> Heard:
    word: ReadStance = "denies" if reference.stance == "denies" else "unrelated"
    if said is None:
        return Heard(reference=reference, stance=word)
    if said.stance == "unrelated" or not said.same_subject:
        return Heard(reference=reference, stance="unrelated", said=said)
    if not check.passes(said.quote or "", reference):
        return Heard(reference=reference, stance=word, said=said, dropped_quote=True)
    match said.stance:
        case "supports" if not said.same_event:
            return Heard(reference=reference, stance="unrelated", said=said, quoted=True)
        case "hedges" if word == "denies":
            return Heard(reference=reference, stance="denies", said=said)
        case "supports" | "hedges" if said.amount == "differs":
            return Heard(reference=reference, stance="hedges", said=said, quoted=True, flags=("amount_differs",))
        case "supports":
            flags = ("stance_disputed",) if word == "denies" else ()
            return Heard(reference=reference, stance="supports", said=said, quoted=True, flags=flags)
        case _:
            return Heard(reference=reference, stance=said.stance, said=said, quoted=True)


def _names(claim: Claim, parties: Sequence[Entity], tables: Compiled) -> frozenset[str]:
    """Return the folded names of the claim's subject, parties and asset."""
    given = [claim.asset, claim.asset_name, claim.entity or "", claim.subject]
    given += [n for e in parties for n in (e.name, *e.aliases)]
    given += tables.asset_names.get(claim.asset.upper(), ())
    given += names_in(claim.text, tables.name_stopwords) | set(_WORD_NAMES.findall(claim.text))
    given += _QUOTED_NAMES.findall(claim.text)
    given += _HEADED_BY.findall(claim.text)[:1] if _KANA.search(claim.text) else []
    return frozenset(f for n in given if n and n != "UNKNOWN" and len(f := folded(n)) > 1)


_QUOTED_NAMES = re.compile(r"[“「『‘\"]([^”」』’\"]{3,30})[”」』’\"]")
_KANA = re.compile(r"[\u3040-\u30ff]")
_HEADED_BY = re.compile(r"[\u4e00-\u9fff]{2,}")
"""A Japanese headline begins with its subject."""
_WORD_NAMES = re.compile(r"[\u30a0-\u30ff]{3,}|[\uac00-\ud7af]{2,}")
"""Korean words and katakana runs of the news: names there have no capitals, and the tables hold few of them."""


def _witness(claim: Claim, heard: Heard, source: int, tables: Compiled) -> Witness:
    reference, said = heard.reference, heard.said
    established = _is_established(reference, tables)
    published = None if reference.published_at is None else utc(reference.published_at)
    owner = _owner_heard(heard, tables)
    speaker = reference.speaker or owner
    if speaker is None and established and heard.quoted and said is not None and said.speaks_for != "other":
        speaker = _named(said.cites or claim.subject or claim.entity or "", tables)
    return Witness(
        number=reference.reference_number,
        stance=heard.stance,
        source=source,
        official=reference.official or owner is not None,
        speaker=speaker,
        established=established,
        age=None if published is None else utc(claim.as_of) - published,
        published=published,
        quoted=heard.quoted,
    )


def _owner_heard(heard: Heard, tables: Compiled) -> str | None:
    """Return the page's owner if the tables know it as one who speaks for itself and the critic hears that voice here."""
    said, url, directory = heard.said, heard.reference.url, tables.directory
    if said is None or said.speaks_for == "other" or not heard.quoted:
        return None
    # Filings and accounts are attributed by code alone: an account may have been taken over.
    if directory.cik_of(url) is not None or directory.account_of(url) is not None:
        return None
    wanted = AUTHORITIES if said.speaks_for == "authority" else _PARTIES
    return next((e.name for e in directory.speakers_of(url) if e.kind in wanted), None)


_PARTIES = frozenset({"company", "exchange", "protocol", "network", "issuer", "payment", "wallet"})


def _domain_of(cited: str, tables: Compiled) -> str | None:
    outlet = tables.directory.outlet_of(cited)
    return None if outlet is None else outlet.domain


def _is_established(reference: SearchReference, tables: Compiled) -> bool:
    # Whoever pays may speak through a press wire.
    outlet = tables.directory.outlet_of_host(reference.owner)
    return reference.source_credibility in {"high", "medium"} and (outlet is None or not outlet.wire)


def _named(name: str, tables: Compiled) -> str:
    found = tables.entities.named(name) if name else ()
    return found[0].name if found else folded(name)


def _sources(heard: Sequence[Heard], tables: Compiled) -> Mapping[int, int]:
    """Return reference number → source: references of one owner, or of one text that they cite, are one source."""
    by_key: dict[str, int] = {}
    out: dict[int, int] = {}
    for h in heard:
        # The claimant's own pages, wherever they lie, are one voice.
        keys = ["claimant" if h.reference.own_page else h.reference.owner or h.reference.registrable_domain]
        cited = h.said.cites if h.said is not None and h.quoted else None
        if cited:
            outlet = f"x.com/{cited[1:].lower()}" if cited.startswith("@") else _domain_of(cited, tables)
            established = _is_established(h.reference, tables)
            # Established pages that each name a spokesperson or a filing asked for themselves; others copy.
            if outlet is not None or not established:
                keys.append(outlet or f"cited:{_named(cited, tables)}")
        known = [by_key[k] for k in keys if k in by_key]
        number = min(known, default=h.reference.reference_number)
        for other, source in out.items():
            if source in known:
                out[other] = number
        by_key |= {k: number for k, v in by_key.items() if v in known} | dict.fromkeys(keys, number)
        out[h.reference.reference_number] = number
    return out
