"""Finds the earlier claims that a news item denies or corrects.

A candidate is about the same asset and party, says the opposite, and does not concern another matter (another
predicate, another amount, an account instead of a vault). ``same_claim`` also requires that the candidate claims what
the news denies. A model may choose among the candidates; without a choice, those with ``same_claim`` are taken.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import timedelta
from typing import Literal

import msgspec

from agents.core.case import Case
from agents.evidence.amounts import share
from agents.evidence.compiled import Compiled, compiled
from agents.evidence.entities import tickers_in
from agents.evidence.stated import telling_of
from agents.retraction.statement import Statement
from agents.text.matching import fold_han
from schemas.effects import EarlierClaim, FindConcerned
from schemas.events import ConcernedSignal
from schemas.ids import signal_id

MAX_CANDIDATES = 12
"""Maximum candidates shown to a critic: ``same_claim`` first, then the newest."""
ENOUGH = 0.5
"""Minimum share of the denied statement that a claim must contain to count as the denied claim."""
_OF_ITSELF = frozenset(
    {"hack", "halt", "bankrupt", "depeg", "resign", "arrest", "liquidate", "raid", "freeze", "layoff", "ban"}
)
"""Predicates that are specific with their subject alone. Others need their object compared: approved or listed what?"""
Kind = Literal["retracted", "superseded"]


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """An earlier claim that may be meant. ``same_claim``: by the rules, this news denies or corrects it."""

    claim: EarlierClaim
    kind: Kind
    same_claim: bool


def question(case: Case) -> FindConcerned | None:
    """Return the journal query; None for news that denies and corrects nothing, or names nobody."""
    told = telling_of(case)
    if not (told.denial or told.correction or told.refutes_denial):
        return None  # most news: whom it names does not matter
    news = _statement_of(case)
    names = _names(case, news)
    if not names:
        return None
    return FindConcerned(
        case_id=case.signal_case,
        assets=_assets(case, news),
        names=names,
        as_of=case.as_of,
        since=case.as_of - timedelta(days=case.config.retraction_window_days),
    )


def candidates(case: Case, claims: Iterable[EarlierClaim]) -> tuple[Candidate, ...]:
    """Return the earlier claims that this news may deny or correct, oldest first."""
    asked = question(case)
    if asked is None:
        return ()
    news, tables = _statement_of(case), compiled(case.config.tables)
    about = [c for c in claims if c.asset in asked.assets and asked.since <= c.as_of <= asked.as_of]
    found = [
        c for claim in about if claim.case_id != case.signal_case and (c := _candidate(news, claim, tables)) is not None
    ]
    best = sorted(found, key=lambda c: (c.same_claim, c.claim.as_of, c.claim.case_id), reverse=True)[:MAX_CANDIDATES]
    return tuple(sorted(best, key=lambda c: (c.claim.as_of, c.claim.case_id)))


def chosen(case: Case, given: Sequence[Candidate], numbers: Collection[int] | None) -> tuple[ConcernedSignal, ...]:
    """Return the signals of the candidates chosen by number (from 1); without a choice, those of ``same_claim``."""
    meant = [c for n, c in enumerate(given, start=1) if (c.same_claim if numbers is None else n in numbers)]
    return tuple(
        ConcernedSignal(
            signal_id=signal_id(case.run_id, c.claim.case_id),
            of_case=c.claim.case_id,
            kind=c.kind,
            language=c.claim.language,
        )
        for c in meant
    )


def _statement(tables: Compiled, text: str, entity: str | None, asset: str) -> Statement:
    return Statement(tables, text, entity=entity, asset=asset)


def _statement_of(case: Case) -> Statement:
    return case.worked_out.once(
        _statement, compiled(case.config.tables), case.news.text, case.draft.entity, case.draft.asset
    )


def _assets(case: Case, news: Statement) -> tuple[str, ...]:
    # Triage may name another asset for the denial than for the claim: an exchange's own coin, or the coin that was
    # lost.
    names = compiled(case.config.tables).asset_names
    named = {ticker for ticker, words in names.items() if any(fold_han(w).lower() in news.low for w in words)}
    issued = {a for e in news.entities.values() for a in e.assets}
    return tuple(sorted({case.draft.asset, *named, *issued, *tickers_in(case.news.text)}))


def _names(case: Case, news: Statement) -> tuple[str, ...]:
    meant = news.parties or frozenset(news.entities)
    names = {fold_han(n).lower() for e in meant for n in (e, *news.entities[e].aliases)}
    return tuple(sorted(n for n in {*names, fold_han(case.draft.entity or "").lower()} if len(n) > 1))


def _candidate(news: Statement, claim: EarlierClaim, tables: Compiled) -> Candidate | None:
    earlier = Statement(tables, claim.text, entity=claim.entity, asset=claim.asset)
    party = _party(news, earlier)
    if party == "other" or earlier.low == news.low:
        return None
    if news.correction:
        return _corrected(news, earlier, claim) if not earlier.denial else None
    if earlier.denial != news.refutes_denial or not _same_matter(news, earlier):
        return None
    same = party == "same" and _likeness(news, earlier) >= ENOUGH
    return Candidate(claim=claim, kind="retracted", same_claim=same)


def _corrected(news: Statement, earlier: Statement, claim: EarlierClaim) -> Candidate | None:
    told, wrong, right = earlier.amounts.all, news.amounts.wrong, news.amounts.given
    if not told or (news.predicates and earlier.predicates and not news.predicates & earlier.predicates):
        return None
    same = share(told, wrong) if wrong else not share(told, right)
    return Candidate(claim=claim, kind="superseded", same_claim=True) if same else None


def _party(news: Statement, earlier: Statement) -> Literal["same", "unclear", "other"]:
    """Whether both name the same party. “No deal of Walmart and Litecoin” does not deny “Kroger and Litecoin”."""
    mine, theirs = news.parties | _unlisted(news), earlier.parties | _unlisted(earlier)
    if mine and theirs:
        by_name = (news.entity and news.entity in earlier.low) or (earlier.entity and earlier.entity in news.low)
        primary = {news.primary, earlier.primary} - news.own - earlier.own - {None}
        shared = mine & theirs
        return "same" if (shared and (not primary or primary & shared)) or (by_name and not primary) else "other"
    if not frozenset(news.entities) & frozenset(earlier.entities) and not mine & theirs:
        return "other"
    return "same" if not mine and not theirs else "unclear"


def _unlisted(one: Statement) -> frozenset[str]:
    return frozenset({one.entity}) if one.entity and one.primary is None and len(one.entity) > 2 else frozenset()


def _same_matter(news: Statement, earlier: Statement) -> bool:
    if news.denied and earlier.predicates and not news.denied & earlier.predicates:
        return False
    if (
        "hack" in news.denied
        and news.denied & earlier.predicates == {"hack"}
        and earlier.account != news.denies_account
    ):
        return False
    told = earlier.amounts.all
    return not news.denied_amounts or not told or share(news.denied_amounts, told)


def _likeness(news: Statement, earlier: Statement) -> float:
    """Return the share of the denied statement that the earlier claim contains, 0–1."""
    shared = news.denied & earlier.predicates
    if news.denied and not shared:
        return 0.0
    if shared & _OF_ITSELF:
        return 1.0
    if news.cjk == earlier.cjk:
        return len(news.words & earlier.told) / len(news.words) if news.words else 1.0
    # Across languages the verb counts as well: terms that the tables know in one language may be missing in the other.
    said, told = len(news.concepts) + len(news.denied), len(news.concepts & earlier.concepts) + len(shared)
    return told / said if said else 1.0
