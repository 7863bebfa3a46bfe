"""A signal and its evidence in words, for readers who do not know the code. Text only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from agents.evidence.findings import dated_later
from agents.evidence.witnesses import counted
from agents.text.wording import Text, fill, joined, references, term
from newsproof.report.recorded_reasons import translate_reason
from schemas import events as ev
from schemas.calls import Call
from schemas.evidence import Findings, PageStance, ReadStance, SearchReference
from schemas.signals import Adjustment, Signal, SignalEvidence
from streams.journal.case_reading import JournalRecord


class WaterfallStep(msgspec.Struct, frozen=True, kw_only=True):
    """One change of the confidence, and the confidence after it. ``amount`` is None in the first and the last row."""

    rule: str
    amount: float | None
    confidence: float
    reason: str = ""
    reason_zh: str = ""


class CaseCall(Call, frozen=True, kw_only=True):
    """A call, and the type of the event that it was recorded with. ``accepted`` False: in a record that was ignored."""

    event: str
    accepted: bool


def findings_in_words(findings: Findings) -> Text:
    """Return the evidence by the word rules alone, such as "by the word rules 2 independent sources, no official confirmation"."""
    official = (
        Text("confirmed by an official source", "有官方信源证实")
        if findings.official_confirmed
        else Text("no official confirmation", "无官方证实")
    )
    parts = [
        fill("{n:independent source|independent sources}", "{n} 个独立信源", n=findings.independent_sources),
        official,
    ]
    parts += [Text("denied", "有否认")] * findings.denied
    parts += [Text("conflicting", "相互矛盾")] * findings.conflict
    parts += [Text("old news", "旧闻")] * findings.stale
    later = dated_later(findings)
    if later:
        parts.append(
            fill("{n:page|pages} left out because dated after the news", "{n} 个网页日期晚于新闻，未采用", n=later)
        )
    if others := len(findings.dropped) - later:
        parts.append(
            fill(
                "{n:other result|other results} not used" if later else "{n:result|results} not used",
                "{n} 条结果未采用",
                n=others,
            )
        )
    return fill("by the word rules {said}", "按词语规则：{said}", said=joined(parts))


def sources_in_words(signal: Signal) -> Text:
    """Return the number of supporting sources and of independent sources."""
    n, known = signal.independent_sources, signal.supporting_sources
    supporting = "" if known is None else fill("{n} supporting", "{n} 个支持信源", n=known)
    return joined((supporting, fill("{n} independent sources", "{n} 个独立信源", n=n)))


NO_PAGES = Text("No page was found that a critic could read.", "没有找到可供核查模型阅读的网页。")


def readers_in_words(critique: ev.EvidenceCritiqued) -> Text:
    """Return who read the pages, and which quotes are not on their page."""
    if critique.stances is None:
        if critique.claims:
            return Text(
                "The critic judged the claim but not each page, so only the word rules classified the pages.",
                "核查模型判断了说法，但没有说明每个网页说了什么：网页仅由词语规则判读。",
            )
        return Text(
            "No critic read the pages; only the word rules classified them.", "没有模型阅读这些网页：仅由词语规则判读。"
        )
    n, missing = len(critique.stances), references(critique.unquoted)
    if not missing:
        return fill(
            "The critic read excerpts of {n:page|pages}. All its quotes are on the pages.",
            "核查模型阅读了 {n} 个网页的摘录；引文均与原文相符。",
            n=n,
        )
    return fill(
        "The critic read excerpts of {n:page|pages}. Its quote from {missing} is not on the page and does not count.",
        "核查模型阅读了 {n} 个网页的摘录；{missing} 的引文与原文不符，不予采信。",
        n=n,
        missing=missing,
    )


class ReadPage(msgspec.Struct, frozen=True, kw_only=True):
    """One reference with the stance that counts. ``said``: the critic's stance; None if it did not see the page.

    ``quoted``: its quote is on the page. If the critic's stance does not count, the word rules may still deny.
    """

    reference_number: int
    stance: ReadStance
    said: PageStance | None = None
    quoted: bool = False


def pages_read(
    findings: Findings | None, critique: ev.EvidenceCritiqued | None, evidence: Iterable[SignalEvidence] = ()
) -> list[ReadPage]:
    """Return every reference with the stance that counts: the critic's, or the word rules' if there was no critic.

    ``evidence``: the signal's, whose stances are those that counted, with amounts and dates compared.
    """
    references = () if findings is None else findings.references
    if critique is None or critique.stances is None:
        return [
            ReadPage(reference_number=reference.reference_number, stance=reference.stance) for reference in references
        ]
    readings = {stance.reference_number: stance for stance in critique.stances}
    unquoted, counts = frozenset(critique.unquoted), {e.reference_number: e.stance for e in evidence}
    pages = [_as_it_counts(reference, readings.get(reference.reference_number), unquoted) for reference in references]
    return [msgspec.structs.replace(p, stance=counts.get(p.reference_number, p.stance)) for p in pages]


def stance_in_words(page: ReadPage, *, critic: bool) -> Text:
    """Return what a page says. Without a critic, that words of the claim are missing does not show that it is unrelated."""
    is_unclear = not critic and page.stance == "unrelated"
    return Text("not clear by words alone", "仅凭词语无法判断") if is_unclear else term(page.stance)


def _as_it_counts(reference: SearchReference, reading: PageStance | None, unquoted: frozenset[int]) -> ReadPage:
    quoted = reading is not None and reading.quote is not None and reference.reference_number not in unquoted
    stance = counted(reference.stance, reading, quoted=quoted)
    return ReadPage(reference_number=reference.reference_number, stance=stance, said=reading, quoted=quoted)


def speaker_in_words(reference: SearchReference, reading: PageStance | None) -> str:
    """Return who speaks on a page, and whom it cites; "" if nobody in particular."""
    role = "" if reading is None or reading.speaks_for == "other" else f"the {reading.speaks_for}"
    cites = f"citing {reading.cites}" if reading is not None and reading.cites else ""
    return ", ".join(filter(None, (reference.speaker, role, cites)))


def doubts_in_words(page: ReadPage) -> str:
    """Return why a page's stance counts as it does: the doubts about the critic's stance, and its reason."""
    reading = page.said
    if reading is None:
        return "not shown to the critic"
    doubts = (
        (reading.stance != page.stance, f"read as “{reading.stance}”"),
        (not page.quoted and reading.stance != "unrelated", "its quote is not on the page"),
        (not reading.same_subject, "different subject"),
        (not reading.same_event, "different event"),
        (reading.stage == "differs", "not as far advanced"),
        (reading.place == "differs", "different venue or chain"),
        (reading.amount == "differs", "different amount"),
    )
    return "; ".join([words for holds, words in doubts if holds] + [reading.reason] * bool(reading.reason))


CRITIC_SAYS = {
    "supported": Text("it supports the claim", "支持该说法"),
    "refuted": Text("it refutes the claim", "否定该说法"),
    "conflicting": Text("sources contradict each other", "信源互相矛盾"),
    "not_enough_evidence": Text("not enough evidence either way", "正反证据都不足"),
}


def deciding(records: Sequence[JournalRecord]) -> Sequence[JournalRecord]:
    """Return the records that decided the case: its own, or those of the second look that changed it."""
    signals = [r.envelope.case_id for r in records if r.accepted and isinstance(r.event, ev.SignalSynthesized)]
    of = signals[-1] if signals else records[0].envelope.case_id
    return [r for r in records if r.envelope.case_id == of]


def last_findings(records: Iterable[JournalRecord]) -> Findings | None:
    """Return the findings of the last search, which include those of the searches before it; None without a search."""
    findings = [r.event.findings for r in records if r.accepted and isinstance(r.event, ev.SearchCompleted)]
    return findings[-1] if findings else None


def critique_of(records: Iterable[JournalRecord]) -> ev.EvidenceCritiqued | None:
    critiques = [r.event for r in records if r.accepted and isinstance(r.event, ev.EvidenceCritiqued)]
    return critiques[-1] if critiques else None


def signal_of(records: Iterable[JournalRecord]) -> tuple[Signal, tuple[Adjustment, ...]] | None:
    """Return the signal that the case ended with, and its adjustments; None without a signal."""
    synthesized = [r.event for r in records if r.accepted and isinstance(r.event, ev.SignalSynthesized)]
    return (
        (synthesized[-1].signal, synthesized[-1].adjustments or synthesized[-1].signal.adjustments)
        if synthesized
        else None
    )


def waterfall(signal: Signal, adjustments: Iterable[Adjustment]) -> list[WaterfallStep]:
    """Return the steps from the preliminary confidence to the final one, one per rule."""
    at = signal.preliminary_confidence
    rows = [_step("preliminary", None, at, Text("the first judgement", "最初的判断"))]
    for adjustment in adjustments:
        at += adjustment.amount
        rows.append(_step(adjustment.rule, adjustment.amount, at, translate_reason(adjustment.reason)))
    return [*rows, _step("final", None, signal.confidence, Text())]


def _step(rule: str, amount: float | None, confidence: float, why: Text) -> WaterfallStep:
    return WaterfallStep(rule=rule, amount=amount, confidence=confidence, reason=why.en, reason_zh=why.zh)


def calls_of(records: Iterable[JournalRecord]) -> list[CaseCall]:
    """Return every call. Calls of ignored records are included: they cost as much."""
    return [
        CaseCall(**msgspec.structs.asdict(call), event=r.envelope.type.removeprefix(ev.PREFIX), accepted=r.accepted)
        for r in records
        for call in r.event.calls
    ]
