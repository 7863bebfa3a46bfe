"""The contents of a brief: numbered references, judged claims, changes since the previous one, and what was not done. Pure.

A watch also publishes its new, testable claims as news, which is verified like any other.

The sentences for people are in Chinese for a Chinese question, else in English.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from agents.core.answers import one_line
from agents.evidence.witnesses import CheckedPage
from agents.investigation.investigation import Investigation
from agents.investigation.judging import ClaimJudgement, judge_claim, titles_as_claims
from agents.investigation.subject import subject_key
from agents.text.matching import fold_han, units
from schemas.effects import PublishNews
from schemas.evidence import PreviousBrief, PreviousClaim
from schemas.ids import normalise_text, uuid5
from schemas.news import News
from schemas.printable import Count
from schemas.research_events import (
    BriefClaim,
    BriefReference,
    BriefSentence,
    BriefWritten,
    Change,
    ClaimEvidence,
    ClaimReading,
)
from schemas.watches import source_of

_WORDS: dict[str, tuple[str, str]] = {
    "offline": (
        "Offline: rules read a bundled, invented corpus. Nothing was looked up in the world.",
        "离线: 由规则读取内置的虚构语料, 没有查询任何真实来源。",
    ),
    "simulated": (
        "Simulated: the answers are made up for measuring. Nothing was looked up in the world.",
        "模拟: 回答仅用于测量, 没有查询任何真实来源。",
    ),
    "failed": ("{count:search|searches} of {what} failed ({why}).", "{what} 的 {count} 次搜索失败 ({why})。"),
    "budget": (
        "{count:search was|searches were} not made: the searches of this investigation or of the day are used up.",
        "有 {count} 次搜索没有进行: 本次调查或当日的搜索额度已用完。",
    ),
    "pages": (
        "{count:page|pages} did not open, and only what the search gave of each was read.",
        "有 {count} 个页面未能打开, 只读取了搜索结果中的内容。",
    ),
    "briefs": (
        "Earlier briefs could not be read ({why}), so nothing is marked as new.",
        "无法读取此前的简报 ({why}), 因此没有标出新内容。",
    ),
    "memory": ("Memory could not be read ({why}).", "无法读取记忆 ({why})。"),
    "by_words": (
        "No critic read the pages of {count:claim|claims}: rules over words judged instead.",
        "有 {count} 条说法没有经模型核读页面, 由词语规则判断。",
    ),
    "unread": (
        "No critic read the pages of {count:claim|claims} ({why}), judged at most likely.",
        "有 {count} 条说法没有经模型核读页面 ({why}), 至多判为“很可能”。",
    ),
    "unwritten": (
        "No model wrote the sentences ({why}): the claims stand as they were stated.",
        "没有模型撰写文字 ({why}): 各说法按原样列出。",
    ),
    "cut_short": ("It was cut short: {why}.", "调查提前结束: {why}。"),
    "finish": ("somebody asked for the brief at once", "有人要求立即给出简报"),
    "nothing": ("No page about the subject was found.", "没有找到与该主题有关的页面。"),
}


def not_done(case: Investigation, unwritten: str = "") -> Iterator[str]:
    """Yield the omissions with their reasons, in the order of the steps. ``unwritten``: why no model wrote the sentences."""

    def say(name: str, **values: object) -> str:
        return _WORDS[name][case.language == "zh"].format(
            **{name: Count(value) if isinstance(value, int) else value for name, value in values.items()}
        )

    if (mode := case.config.provider_mode) != "live":
        yield say(mode)
    if case.finishing:
        why = say("finish") if case.failed is None else f"{case.failed.step}: {case.failed.failure.kind}"
        yield say("cut_short", why=why)
    for name, _, why in (unread.partition(": ") for unread in (case.framed.unread if case.framed else ())):
        yield say(name, why=why)
    outcomes = [o for s in case.searches for o in s.outcomes]
    if denied := sum(o.failure is not None and o.failure.kind == "budget" for o in outcomes):
        yield say("budget", count=denied)
    lost = Counter((o.provider, o.failure.kind) for o in outcomes if o.failure and o.failure.kind != "budget")
    for (provider, kind), count in lost.items():
        yield say("failed", count=count, what=provider, why=kind)
    if shut := sum(len(s.failures) for s in case.scrapes):
        yield say("pages", count=shut)
    if case.searches and not case.searches[-1].findings.references:
        yield say("nothing")
    readings = case.critiqued.readings if case.critiqued else ()
    if plain := sum(r.stances is None and not r.unread for r in readings):
        yield say("by_words", count=plain)
    for why, count in Counter(r.unread for r in readings if r.unread).items():
        yield say("unread", count=count, why=why)
    if unwritten:
        yield say("unwritten", why=unwritten)


ESTABLISHED = frozenset({"confirmed", "likely"})
DISPUTED = frozenset({"disputed", "refuted"})
_ORDER = ("confirmed", "likely", "disputed", "refuted", "unconfirmed", "stale", "unchecked")
_CITED = re.compile(r"\s?[\[【]\s?(\d{1,4}(?:\s?[,，、]\s?\d{1,4})*)\s?[\]】]")
_NUMBER = re.compile(r"\d+")


class Draft(msgspec.Struct, frozen=True):
    """The claims in the order of a brief, and their references, numbered from 1 in the order of use."""

    claims: tuple[BriefClaim, ...]
    references: tuple[BriefReference, ...]


def draft_of(case: Investigation) -> Draft:
    """Return the draft of a brief, from everything found so far."""
    judged = sorted((judge_claim(case, r) for r in _readings(case)), key=lambda j: _ORDER.index(j.judgement.verdict))
    number: dict[str, int] = {}
    references: list[BriefReference] = []
    known = frozenset(case.framed.previous.urls if case.framed and case.framed.previous else ())
    claims = []
    for claim_judged in judged:
        evidence = []
        for page in _pages_of(claim_judged):
            reference = page.reference
            if reference.url not in number:
                number[reference.url] = len(number) + 1
                references.append(
                    BriefReference(
                        number=number[reference.url],
                        title=reference.title,
                        url=reference.url,
                        passage=reference.passage or reference.snippet,
                        credibility=reference.source_credibility,
                        official=reference.official,
                        published_at=reference.published_at,
                        first_seen=reference.url not in known,
                    )
                )
            quote = page.reading.quote if page.quoted and page.reading else None
            evidence.append(ClaimEvidence(number=number[reference.url], stance=page.stance, quote=quote))
        if evidence:
            verdict, sources = claim_judged.judgement.verdict, claim_judged.judgement.supporting_sources
            claims.append(
                BriefClaim(
                    claim=claim_judged.claim.claim,
                    verdict=verdict,
                    supporting_sources=sources,
                    evidence=tuple(evidence),
                )
            )
    return Draft(tuple(claims), tuple(references))


def written(
    case: Investigation, draft: Draft, sentences_given: tuple[tuple[int, str], ...], *, unwritten: str = ""
) -> BriefWritten:
    """Return the brief. ``sentences_given``: sentences, each with the number of its claim, from 1, as a model wrote them.

    A citation of a page that does not exist or is not about the claim is removed, and so is a sentence left without one. Both
    are counted. A claim without a sentence appears as it was stated. ``unwritten``: why no model wrote.
    """
    sentences, citations_removed, sentences_removed = _checked(draft, sentences_given)
    by_section: dict[str, list[BriefSentence]] = {"established": [], "disputed": [], "unsettled": []}
    for number, claim in enumerate(draft.claims, start=1):
        references = tuple(e.number for e in claim.evidence)
        own = BriefSentence(text=claim.claim, references=references, claim=number - 1)
        by_section[_section(claim)] += sentences.get(number, [own])
    previous = case.framed.previous if case.framed else None
    return BriefWritten(
        subject=case.asked.subject,
        subject_key=subject_key(case.asked.subject),
        as_of=case.as_of,
        language=case.language,
        established=tuple(by_section["established"]),
        disputed=tuple(by_section["disputed"]),
        unsettled=tuple(by_section["unsettled"]),
        claims=draft.claims,
        references=draft.references,
        new_since=detect_changes(draft.claims, draft.references, previous),
        previous=previous.investigation_id if previous else None,
        previous_as_of=previous.as_of if previous else None,
        questions=tuple(q.question for q in case.framed.questions) if case.framed else (),
        not_found=_not_found(case),
        not_done=tuple(not_done(case, unwritten)),
        citations_removed=citations_removed,
        sentences_removed=sentences_removed,
        rounds=len(case.searches),
        searches=sum(len(s.outcomes) for s in case.searches),
        provider_mode=case.config.provider_mode,
        path="partial" if case.finishing or unwritten else "complete",
    )


def _checked(
    draft: Draft, sentences_given: tuple[tuple[int, str], ...]
) -> tuple[dict[int, list[BriefSentence]], int, int]:
    """Return the sentences of each claim with their valid citations, and the numbers of removed citations and sentences."""
    sentences: dict[int, list[BriefSentence]] = {}
    citations_removed = sentences_removed = 0
    for number, text in sentences_given:
        claim = draft.claims[number - 1] if 0 < number <= len(draft.claims) else None
        cited = [int(n) for reference in _CITED.findall(text) for n in _NUMBER.findall(reference)]
        known = {e.number for e in claim.evidence} if claim else set[int]()
        kept = tuple(dict.fromkeys(n for n in cited if n in known))
        citations_removed += sum(n not in known for n in cited)
        plain = one_line(_CITED.sub("", text), 400)
        if kept and plain:
            sentences.setdefault(number, []).append(BriefSentence(text=plain, references=kept, claim=number - 1))
        else:
            sentences_removed += 1
    return sentences, citations_removed, sentences_removed


def _readings(case: Investigation) -> tuple[ClaimReading, ...]:
    if case.critiqued is not None:
        return case.critiqued.readings
    # Cut short before the critique: the stated claims, or the titles of the pages, all unread.
    claims = case.found.claims if case.found is not None else titles_as_claims(case)
    return tuple(ClaimReading(claim=c, unread="not_reached") for c in claims)


def _pages_of(judged: ClaimJudgement) -> list[CheckedPage]:
    """Return the pages with a stance on a claim; without any, those that it was taken from."""
    related = [page for page in judged.pages if page.stance != "unrelated"]
    return related or [page for page in judged.pages if page.reference.reference_number in judged.claim.told_by]


def _section(claim: BriefClaim) -> str:
    return "established" if claim.verdict in ESTABLISHED else "disputed" if claim.verdict in DISPUTED else "unsettled"


def _not_found(case: Investigation) -> tuple[str, ...]:
    answered = {reading.claim.question for reading in _readings(case)}
    questions = enumerate(case.framed.questions, start=1) if case.framed else ()
    return tuple(q.question for number, q in questions if number not in answered)


SAME_WORDS = 0.6
"""Shared words of two claims, as a share of all words of both, from which they are the same claim."""
SAME_PAGES_WORDS = 0.25
"""The same if both have a page in common: statements of one page need less similarity."""


def detect_changes(
    claims: Sequence[BriefClaim], references: Iterable[BriefReference], previous: PreviousBrief | None
) -> tuple[Change, ...]:
    """Return the changes since ``previous``, in the order of the claims; none without one.

    A change is a new claim, another verdict, or new pages about a known claim.
    """
    if previous is None:
        return ()
    urls = {r.number: r.url for r in references}
    known = frozenset(previous.urls)
    changes = (_change(n, claim, urls, previous.claims, known) for n, claim in enumerate(claims))
    return tuple(change for change in changes if change is not None)


def _change(
    place: int, claim: BriefClaim, urls: dict[int, str], earlier: tuple[PreviousClaim, ...], known: frozenset[str]
) -> Change | None:
    numbers = tuple(e.number for e in claim.evidence if e.number in urls)
    fresh = tuple(n for n in numbers if urls[n] not in known)
    before = _same(claim.claim, {urls[n] for n in numbers}, earlier)
    testable = any(e.quote for e in claim.evidence if e.stance in ("supports", "denies"))
    if before is None:
        return Change(kind="new_claim", claim=place, references=numbers, testable=testable) if numbers else None
    if before.verdict != claim.verdict:
        why = fresh or numbers
        return Change(
            kind="verdict_changed",
            claim=place,
            references=why,
            before=before.verdict,
            testable=testable and bool(fresh),
        )
    return Change(kind="new_page", claim=place, references=fresh, testable=False) if fresh else None


def _same(claim: str, urls: set[str], earlier: tuple[PreviousClaim, ...]) -> PreviousClaim | None:
    alike = [(_likeness(claim, e.claim), e) for e in earlier]
    close = [(share, e) for share, e in alike if share >= (SAME_WORDS if urls.isdisjoint(e.urls) else SAME_PAGES_WORDS)]
    return max(close, key=lambda pair: pair[0])[1] if close else None


def _likeness(text: str, other: str) -> float:
    a, b = frozenset(units(fold_han(text).casefold())), frozenset(units(fold_han(other).casefold()))
    return len(a & b) / len(a | b) if a and b else 0.0


MAX_ANNOUNCED = 3
"""Maximum news items of one investigation. Each is a case with searches of its own."""


def announced(case: Investigation, draft: Draft) -> tuple[PublishNews, ...]:
    """Return a news item for each claim that is not in the previous brief and that a page states in checked words.

    None without a watch, and none for a watch's first investigation, which has no previous brief. The pages that state the
    claim are its ``origins``, so other pages must verify it.
    """
    previous = case.framed.previous if case.framed else None
    if case.asked.watch is None or previous is None:
        return ()
    changes = detect_changes(draft.claims, draft.references, previous)
    new = [draft.claims[c.claim] for c in changes if c.kind == "new_claim" and c.testable]
    urls = {r.number: r.url for r in draft.references}
    return tuple(PublishNews(news=_news(case, case.asked.watch, claim, urls)) for claim in new[:MAX_ANNOUNCED])


def _news(case: Investigation, watch: str, claim: BriefClaim, urls: dict[int, str]) -> News:
    return News(
        source=source_of(case.asked.subject),
        external_id=uuid5("watch_claim", watch, normalise_text(claim.claim)),
        text=claim.claim,
        published_at=case.as_of,
        received_at=case.as_of,
        origins=tuple(urls[e.number] for e in claim.evidence),
        extra={"watch": watch, "investigation": case.case_id},
    )
