"""The earlier claims that a news item denies or corrects.

A candidate is about the same asset and party, says the opposite, and does not concern another matter (another predicate,
another amount, an account instead of a vault). ``same_claim`` also requires that the candidate states what the news denies.
A model may choose among the candidates; without a choice, those with ``same_claim`` are taken.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from agents.core.case import Case
from agents.evidence.claim import STORY_TIME
from agents.evidence.compiled import Compiled, compiled
from agents.evidence.entities import tickers_in
from agents.evidence.message_parts import assets_listed_with
from agents.evidence.news_claim import ParsedText, parsed_text_of
from agents.retraction.statement import DeniedPart, Statement, clauses_of, is_beside, speaks_of
from agents.text.amounts import Amounts, share
from agents.text.matching import fold_han
from schemas.effects import EarlierClaim, FindConcerned
from schemas.events import ConcernedSignal
from schemas.ids import signal_id
from schemas.signals import NO_ASSET

MAX_CANDIDATES = 12
"""Maximum candidates shown to a critic: ``same_claim`` first, then the newest."""
ENOUGH = 0.5
"""Minimum share of the denied statement that a claim must contain to count as the denied claim."""
_OF_ITSELF = frozenset(
    {"hack", "halt", "bankrupt", "depeg", "resign", "arrest", "liquidate", "raid", "freeze", "layoff", "ban"}
)
"""Predicates that are specific with their subject alone. Others need their object compared: approved or listed what?"""
_SPARED = re.compile(
    r"\b(?:users?|customers?|clients?)['’]?s? (?:funds|assets|data|information|details) (?:were|was|are|is|have been|has been)\b(?: not| never)? \w+"
    r"|(?:用户|客户)(?:资金|资产|数据|信息)(?:并未|未|没有|没)?(?:被盗|失窃|遭窃取|被窃取|泄露|外泄)"
)
"""Statements about users' funds and data, which do not deny the event itself."""
Kind = Literal["retracted", "superseded"]


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """An earlier claim that the news may deny or correct. ``same_claim``: by the rules, it does.

    ``denied``: the claim's predicates that the news denies; ``right``: the figures that replace the claim's own.
    """

    claim: EarlierClaim
    kind: Kind
    same_claim: bool
    denied: frozenset[str] = frozenset()
    right: frozenset[float] = frozenset()


def earlier_claims_query(case: Case) -> FindConcerned | None:
    """Return the journal query; None for news that denies and corrects nothing or names no party, and for a question."""
    if case.news.is_asked:
        return None
    parsed = parsed_text_of(case)
    if not (parsed.denial or parsed.correction or parsed.refutes_denial):
        return None  # most news: no need to parse the parties
    news = _statement_of(case, case.draft.asset)
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


def find_candidates(case: Case, claims: Iterable[EarlierClaim]) -> tuple[Candidate, ...]:
    """Return the earlier claims that this news may deny or correct, oldest first."""
    asked = earlier_claims_query(case)
    if asked is None:
        return ()
    tables, listed = compiled(case.config.tables), _listed(case)
    about = [c for c in claims if c.asset in asked.assets and asked.since <= c.as_of <= asked.as_of]
    candidates = [
        c
        for claim in about
        if claim.case_id != case.signal_case
        for news in [_statement_of(case, claim.asset if claim.asset in listed else case.draft.asset)]
        if (c := _candidate(news, claim, tables, case.as_of)) is not None
    ]
    best = sorted(candidates, key=lambda c: (c.same_claim, c.claim.as_of, c.claim.case_id), reverse=True)[
        :MAX_CANDIDATES
    ]
    return tuple(sorted(best, key=lambda c: (c.claim.as_of, c.claim.case_id)))


def choose_concerned(
    case: Case, given: Sequence[Candidate], numbers: Collection[int] | None, pages: Sequence[str]
) -> tuple[ConcernedSignal, ...]:
    """Return the signals of the candidates chosen by number (from 1); without a choice, those with ``same_claim``.

    ``pages``: the texts of the pages that support the news. A claim that none of them mentions is not retracted.
    """
    tables = compiled(case.config.tables)
    picked = [c for n, c in enumerate(given, start=1) if (c.same_claim if numbers is None else n in numbers)]
    meant = [c for c in picked if is_corroborated(c, pages, tables)]
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


def _statement_of(case: Case, asset: str) -> Statement:
    return case.memo.once(_statement, compiled(case.config.tables), case.news.text, case.draft.entity, asset)


def _assets(case: Case, news: Statement) -> tuple[str, ...]:
    # Triage may name another asset for the denial than for the claim: an exchange's own coin, or the coin that was
    # lost.
    names = compiled(case.config.tables).asset_names
    named = {ticker for ticker, words in names.items() if any(fold_han(w).lower() in news.low for w in words)}
    issued = {a for e in news.entities.values() for a in e.assets}
    return tuple(sorted({case.draft.asset, *named, *issued, *tickers_in(case.news.text), *_listed(case)}))


def _listed(case: Case) -> tuple[str, ...]:
    """Return the assets that the news denies something of in one list: a message that claims it of them has a case for each."""
    several = case.config.claims_per_message > 1
    known = compiled(case.config.tables)
    return case.memo.once(assets_listed_with, case.draft.asset, case.news.text, known) if several else ()


def _names(case: Case, news: Statement) -> tuple[str, ...]:
    meant = news.parties or frozenset(news.entities)
    names = {fold_han(n).lower() for e in meant for n in (e, *news.entities[e].aliases)}
    return tuple(sorted(n for n in {*names, fold_han(case.draft.entity or "").lower()} if len(n) > 1))


def _candidate(news: Statement, claim: EarlierClaim, tables: Compiled, as_of: datetime) -> Candidate | None:
    earlier = Statement(tables, claim.text, entity=claim.entity, asset=claim.asset)
    party = _party(news, earlier)
    if party == "other" or earlier.low == news.low:
        return None
    if news.correction:
        return _corrected(news, earlier, claim, as_of) if not earlier.denial else None
    if earlier.denial != news.refutes_denial:
        return None
    parts = [p for p in news.parts if _same_matter(p, earlier)]
    if not parts:
        return None
    part = max(parts, key=lambda p: _likeness(p, news, earlier))
    recent = as_of - claim.as_of <= STORY_TIME
    alike = _likeness(part, news, earlier) >= ENOUGH
    if not part.predicates and news.predicates & earlier.predicates and not alike:
        return None  # The news uses the claim's verb and denies something else.
    same = party == "same" and recent and alike
    return Candidate(claim=claim, kind="retracted", same_claim=same, denied=part.predicates & earlier.predicates)


def _corrected(news: Statement, earlier: Statement, claim: EarlierClaim, as_of: datetime) -> Candidate | None:
    claimed, wrong, right = earlier.amounts.all, news.corrected.wrong, news.corrected.given
    if not claimed or (news.predicates and earlier.predicates and not news.predicates & earlier.predicates):
        return None
    if wrong:
        same = share(claimed, wrong)
    else:  # No wrong figure is named: only the same object, reported within the story's time, can be meant.
        about = news.parts[0]
        recent = as_of - claim.as_of <= STORY_TIME
        same = recent and not share(claimed, right) and _likeness(about, news, earlier) >= ENOUGH
    return Candidate(claim=claim, kind="superseded", same_claim=True, right=right) if same else None


def _party(news: Statement, earlier: Statement) -> Literal["same", "unclear", "other"]:
    """Return whether both name the same party. “No deal of Walmart and Litecoin” does not deny “Kroger and Litecoin”."""
    mine, theirs = news.parties | _unlisted(news), earlier.parties | _unlisted(earlier)
    if mine and theirs:
        by_name = (news.entity and news.entity in earlier.low) or (earlier.entity and earlier.entity in news.low)
        primary = {news.primary, earlier.primary} - news.own - earlier.own - {None}
        shared = mine & theirs
        return "same" if (shared and (not primary or primary & shared)) or (by_name and not primary) else "other"
    if not frozenset(news.entities) & frozenset(earlier.entities) and not mine & theirs:
        return "other"
    return "same" if not mine and not theirs else "unclear"


def _unlisted(statement: Statement) -> frozenset[str]:
    entity = statement.entity
    return frozenset({entity}) if entity and statement.primary is None and len(entity) > 2 else frozenset()


def _same_matter(part: DeniedPart, earlier: Statement) -> bool:
    if part.predicates and earlier.predicates and not part.predicates & earlier.predicates:
        return False
    if part.beside and not is_beside(earlier.sense):
        return False
    if part.predicates & earlier.predicates == {"hack"} and earlier.account != part.account:
        return False
    claimed = earlier.amounts.all
    return not part.amounts or not claimed or share(part.amounts, claimed)


def _likeness(part: DeniedPart, news: Statement, earlier: Statement) -> float:
    """Return the share of the denied statement that the earlier claim contains, 0–1; 0 if only a verb can be compared."""
    shared = part.predicates & earlier.predicates
    if part.predicates and not shared:
        return 0.0
    if shared & _OF_ITSELF:
        return 1.0
    if news.cjk == earlier.cjk:
        if part.words:
            return len(part.words & earlier.told) / len(part.words)
        return 1.0 if _share_object(news, earlier) else 0.0
    # Across languages the verb counts as well: terms that the tables know in one language may be missing in the other.
    terms, terms_shared = len(part.concepts) + len(part.predicates), len(part.concepts & earlier.concepts) + len(shared)
    return terms_shared / terms if _share_object(news, earlier) else 0.0


def _share_object(news: Statement, earlier: Statement) -> bool:
    """Return whether both name the same object: a further party, or a coin that is not the acting party's own."""
    both = frozenset(news.entities) & frozenset(earlier.entities) - {news.primary, earlier.primary}
    return bool(both) or (news.asset == earlier.asset != NO_ASSET and not news.own)


def is_corroborated(candidate: Candidate, pages: Iterable[str], tables: Compiled) -> bool:
    """Return whether a page that supports the news denies this candidate's claim. Only such claims are retracted.

    If the claim is a denial itself, the page may instead report the matter.
    """
    texts = [fold_han(line).lower() for text in pages for line in text.splitlines()]
    if candidate.kind == "superseded":
        return any(share(Amounts(text).given, candidate.right) for text in texts)
    if not candidate.denied:
        return True
    if ParsedText(tables, candidate.claim.text).denial:
        return any(speaks_of(tables, candidate.denied, text) for text in texts)
    if not _SPARED.search(fold_han(candidate.claim.text).lower()):
        texts = [_SPARED.sub(" ", text) for text in texts]
    beside = is_beside(ParsedText(tables, candidate.claim.text).sense)
    return any(_denies(tables, candidate.denied, clause, beside) for text in texts for clause in clauses_of(text))


def _denies(tables: Compiled, groups: frozenset[str], clause: str, beside: bool) -> bool:
    sense = tables.grammar.sense(clause)
    if not sense.denial or (is_beside(sense) and not beside):
        return False
    return bool(groups.intersection(sense.negated)) or (not sense.negated and speaks_of(tables, groups, clause))
