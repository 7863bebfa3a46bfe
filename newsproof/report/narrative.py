"""Narrative of a case, in sentences for a person who does not know the code. Text only; ``case_view`` prints it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec

from agents.evidence.witnesses import counted
from schemas import events as ev
from schemas.calls import Call
from schemas.effects import Failure
from schemas.evidence import Findings, PageStance, ReadStance, SearchReference
from schemas.signals import Adjustment, Signal, StatedClaim
from streams.journal.case_reading import JournalRecord

Language = Literal["zh", "en"]
"""A language that readers are written to in."""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened. ``after_s``: seconds since the opening; ``thought``: the reason, if recorded."""

    phase: str
    after_s: float
    what: str
    thought: str = ""


class WaterfallStep(msgspec.Struct, frozen=True, kw_only=True):
    """One change of the confidence, and the confidence after it. ``amount`` is None in the first and the last row."""

    rule: str
    amount: float | None
    confidence: float
    reason: str = ""


class CaseCall(Call, frozen=True, kw_only=True):
    """A call, and the type of the event that it was recorded with. ``accepted`` False: in a record that was ignored."""

    event: str
    accepted: bool


def lines_of(records: Iterable[JournalRecord]) -> list[Line]:
    """Return one line per accepted record, in their order."""
    lines: list[Line] = []
    opened: datetime | None = None
    for record in (r for r in records if r.accepted):
        phase, what, thought = sentence_of(record.event)
        opened = opened or record.envelope.time
        after = (record.envelope.time - opened).total_seconds()
        lines.append(Line(phase=phase, after_s=after, what=what, thought=thought))
    return lines


def sentence_of(event: Any) -> tuple[str, str, str]:
    """Return (phase, what happened, why) of one event."""
    for kinds, tell in ((_OPENING, _told_opening), (_SEARCHING, _told_searching), (_ENDING, _told_ending)):
        if isinstance(event, kinds):
            return tell(event)
    return _told_aside(event)


_OPENING = (ev.EventReceived, ev.CaseTriaged, ev.ContextGathered)
_SEARCHING = (ev.ToolPlanned, ev.SearchCompleted, ev.PagesScraped, ev.KeywordsExpanded)
_ENDING = (ev.EvidenceCritiqued, ev.SignalSynthesized, ev.CaseDropped, ev.CaseFailed, ev.CaseDegraded)


def _told_opening(event: Any) -> tuple[str, str, str]:
    match event:
        case ev.EventReceived(news=news, edits=edits, language=language):
            edit = f"; it edits the case {edits}" if edits else ""
            return (
                "received",
                f"The news came in from {news.source} ({LANGUAGES.get(language, LANGUAGES['other'])}){edit}.",
                "",
            )
        case ev.CaseTriaged(draft=draft, route=route, gate_reason=reason, claim=claim):
            what = (
                f"First judgement: {draft.event_type}, {draft.asset or 'no asset'}, {draft.action} "
                f"({draft.direction}) with confidence {draft.confidence:.2f}. {_claim_in_words(claim)}{ROUTES[route]}"
            )
            return "triaged", what, reason
        case _:
            found = len(event.entries)
            texts = {
                "found": f"{found} similar past case{'s' if found != 1 else ''} found in memory.",
                "no_match": "Memory was searched: no similar past case.",
                "unavailable": "Memory could not be asked; the case goes on without it.",
            }
            best = "; ".join(f"{e.summary[:80]} (similarity {e.similarity:.2f})" for e in event.entries[:3])
            return "recalled", texts[event.memory], best


def _claim_in_words(claim: StatedClaim | None) -> str:
    if claim is None:
        return ""
    amount = claim.amount and f"{claim.amount.value:,.15g} {claim.amount.unit}".strip()
    parts = (claim.subject, _plain(claim.predicate), claim.object, amount, claim.asset, claim.venue)
    said = " · ".join(dict.fromkeys(part for part in parts if part))
    by = {"named": "by a named source", "unnamed": "by an unnamed source", "none": "without a source"}
    return f"It claims: {said} ({claim.modality}, {by[claim.attribution]}). "


LANGUAGES = {"zh": "Chinese", "en": "English", "other": "another language"}
ROUTES = {
    "deep": "It passes the gate: its claims are verified.",
    "single_pass": "It gets the single-pass analysis.",
    "preliminary": "It is not verified further.",
}


def _told_searching(event: Any) -> tuple[str, str, str]:
    match event:
        case ev.ToolPlanned(route="search"):
            tasks = "; ".join(f"{_plain(t.tool)}: {t.query}" for t in event.tasks) or event.search_keywords
            what = f"Round {event.round}: to look up with {_plain(', '.join(event.tools))} — {tasks}"
            return "planned", what, f"{event.reason} ({DECIDED[event.decided_by]})"
        case ev.ToolPlanned():
            return "planned", f"Round {event.round}: nothing more to look up.", event.reason
        case ev.SearchCompleted():
            return "searched", f"Round {event.round}: {_outcomes(event)}.", findings_in_words(event.findings)
        case ev.PagesScraped():
            shut = f", {len(event.failures)} stayed shut" if event.failures else ""
            return "scraped", f"{len(event.pages)} pages opened{shut}.", "; ".join(p.url for p in event.pages)
        case _:
            again = "they open a further round" if event.route == "plan" else "no further round"
            return "expanded", f"New keywords: {', '.join(event.keywords) or 'none'}; {again}.", event.reason


DECIDED = {
    "never_search": "a rule: this kind of event is never searched",
    "force_search": "a rule: this kind of event is always searched first",
    "evidence_there": "a rule: the evidence is there already",
    "rounds_used": "a rule: the rounds are used up",
    "disabled": "switched off in the settings",
    "model": "decided by the model",
}


def _outcomes(event: ev.SearchCompleted) -> str:
    parts = []
    for one in event.outcomes:
        who = f"{one.provider} ({one.topic})" if one.topic else one.provider
        if one.failure is not None:
            parts.append(f"{who} FAILED for “{one.query}” ({one.failure.kind}: {one.failure.message})")
        else:
            cached = ", from the cache" if one.cached else ""
            parts.append(f"{who} gave {one.hits} hits for “{one.query}”{cached}")
    parts += [f"{value.source} says {_plain(value.name)} {value.value:g} {value.unit}" for value in event.market]
    for seen in event.observations:
        answers = len(seen.texts) + len(seen.entries)
        parts.append(
            f"{_plain(seen.tool)} FAILED ({seen.unavailable})"
            if seen.unavailable
            else f"{_plain(seen.tool)}: {answers} answers"
        )
    return "; ".join(parts) or "no provider was asked"


def _plain(name: str) -> str:
    return name.replace("_", " ")


def findings_in_words(found: Findings) -> str:
    """Return a summary of the evidence, such as "2 independent sources, no official confirmation"."""
    said = [f"{found.independent_sources} independent sources"]
    said.append("confirmed by an official source" if found.official_confirmed else "no official confirmation")
    said += [
        word
        for flag, word in ((found.denied, "denied"), (found.conflict, "conflicting"), (found.stale, "old news"))
        if flag
    ]
    if found.dropped:
        said.append(f"{len(found.dropped)} results not used")
    return ", ".join(said)


def _told_ending(event: Any) -> tuple[str, str, str]:
    match event:
        case ev.EvidenceCritiqued():
            said = "; ".join(event.contradictions)
            if event.stances is None and not event.claims:  # its verdict is that of nobody
                return "critiqued", readers_in_words(event), said
            read = f"{CRITIC_SAYS[event.verdict]}; the news is {TIMELINESS[event.timeliness]}"
            return "critiqued", f"The evidence weighed: {read}. {readers_in_words(event)}", said
        case ev.SignalSynthesized(signal=s):
            told = f"{action_in_words(s)} {s.asset} with confidence {s.confidence:.2f}"
            what = f"Signal: {told}; {verdict_in_words(s)}, by way of the {PATHS[event.path]}."
            return "ended", what, s.notes
        case ev.CaseDropped():
            of = f" (the first is case {event.duplicate_of})" if event.duplicate_of else ""
            return "ended", f"Dropped without a signal: {event.reason}{of}.", event.detail
        case ev.CaseFailed():
            what = f"Failed at step {event.failed_step} after {event.attempts} attempts; there is no signal."
            return "ended", what, event.reason
        case _:
            return (
                "degraded",
                f"The deep path gave up at {event.failed_step}; the single pass takes over.",
                event.reason,
            )


def verdict_in_words(signal: Signal) -> str:
    """Return the verdict; of one that was not checked with the reason, such as “unchecked (gate)”."""
    if signal.verdict is None:
        return NO_VERDICT
    return f"{signal.verdict} ({signal.unchecked_reason})" if signal.unchecked_reason else signal.verdict


def action_in_words(signal: Signal) -> str:
    """Return the action; where nothing is to be done, also what the claim would mean if it were true."""
    meant = signal.action == "observe" and signal.direction != "neutral"
    return f"observe · {signal.direction}" if meant else signal.action


def summary_in(signal: Signal, language: Language) -> str:
    """Return the summary in this language; where nobody wrote one, in the language of the news."""
    return (signal.summary_zh if language == "zh" else signal.summary_en) or signal.summary


def sources_in_words(signal: Signal) -> str:
    """Return how many sources support the claim, beside how many independent ones speak of it."""
    independent = f"{signal.independent_sources} independent"
    known = signal.supporting_sources
    return f"{independent} sources" if known is None else f"{known} supporting, {independent} sources"


NO_VERDICT = "no verdict (published by the rules of before)"


def readers_in_words(critique: ev.EvidenceCritiqued) -> str:
    """Return who read the pages, and how many quotes were not found on theirs."""
    if critique.stances is None:
        return (
            "A critic judged the claim without saying what each page says: the word rules read the pages alone."
            if critique.claims
            else "No critic read the pages: the word rules read alone."
        )
    if not critique.unquoted:
        return f"A critic read what was found of {_pages(critique.stances)}; every quote that it gave stands there."
    missing = ", ".join(f"[{n}]" for n in critique.unquoted)
    read = _pages(critique.stances)
    return f"A critic read what was found of {read}; not there is the quote of {missing}, which counts for nothing."


def _pages(read: Sequence[object]) -> str:
    return "1 page" if len(read) == 1 else f"{len(read)} pages"


class ReadPage(msgspec.Struct, frozen=True, kw_only=True):
    """One reference as it counts. ``said``: what the critic read, None where it was not shown the page.

    ``quoted``: its quote is on the page. Where the critic says nothing that counts, the word rules may still deny.
    """

    reference_number: int
    stance: ReadStance
    said: PageStance | None = None
    quoted: bool = False


def pages_read(found: Findings | None, critique: ev.EvidenceCritiqued | None) -> list[ReadPage]:
    """Return every reference with the stance that counts: the critic's, or the word rules' where no critic read."""
    references = () if found is None else found.references
    if critique is None or critique.stances is None:
        return [ReadPage(reference_number=one.reference_number, stance=one.stance) for one in references]
    said = {one.reference_number: one for one in critique.stances}
    unquoted = frozenset(critique.unquoted)
    return [_as_it_counts(one, said.get(one.reference_number), unquoted) for one in references]


def _as_it_counts(one: SearchReference, said: PageStance | None, unquoted: frozenset[int]) -> ReadPage:
    quoted = said is not None and said.quote is not None and one.reference_number not in unquoted
    stance = counted(one.stance, said, quoted=quoted)
    return ReadPage(reference_number=one.reference_number, stance=stance, said=said, quoted=quoted)


def speaker_in_words(one: SearchReference, said: PageStance | None) -> str:
    """Return who speaks on a page, and whom it cites; "" where nobody in particular does."""
    role = "" if said is None or said.speaks_for == "other" else f"the {said.speaks_for}"
    cites = f"citing {said.cites}" if said is not None and said.cites else ""
    return ", ".join(filter(None, (one.speaker, role, cites)))


def doubts_in_words(page: ReadPage) -> str:
    """Return why a page counts as it does: what takes something from the critic's stance, and its reason."""
    said = page.said
    if said is None:
        return "not shown to the critic"
    doubts = (
        (said.stance != page.stance, f"read as “{said.stance}”"),
        (not page.quoted and said.stance != "unrelated", "its quote is not on the page"),
        (not said.same_subject, "another subject"),
        (not said.same_event, "another event"),
        (said.amount == "differs", "another amount"),
    )
    return "; ".join([words for holds, words in doubts if holds] + [said.reason] * bool(said.reason))


CRITIC_SAYS = {
    "supported": "it supports the claim",
    "refuted": "it refutes the claim",
    "conflicting": "sources contradict each other",
    "not_enough_evidence": "not enough evidence either way",
}
TIMELINESS = {"fresh": "fresh", "stale": "old, told again", "unknown": "of an age that nothing found tells"}
PATHS = {
    "deep": "deep path",
    "single_pass": "single-pass analysis",
    "preliminary": "first judgement alone",
    "degraded": "single-pass analysis after the deep path failed",
}


def _told_aside(event: Any) -> tuple[str, str, str]:
    match event:
        case ev.EffectCompleted(calls=(*_, Call(reply=Failure(kind="cut", message=message)))):
            return "recovering", f"{event.step}: a model's reply was cut at its limit of tokens.", message
        case ev.EffectCompleted():
            kinds = ", ".join(c.kind.replace("_", " ") for c in event.calls) or "call"
            failed = [c.reply for c in event.calls if isinstance(c.reply, Failure)]
            if failed and len(failed) == len(event.calls):
                return "recovering", f"{event.step}: no answer ({kinds}).", f"{failed[-1].kind}: {failed[-1].message}"
            return "asking", f"{event.step}: a reply came ({kinds}).", ""
        case ev.StepFailed():
            follows = {"retry": "it is tried again", "degrade": "the case degrades", "give_up": "the case gives up"}
            at = f" at {event.retry_at:%H:%M:%S}" if event.retry_at else ""
            what = f"{event.step} did not work (attempt {event.attempt}): {follows[event.outcome]}{at}."
            return "recovering", what, f"{event.failure.kind}: {event.failure.message}"
        case ev.StepStarted(handed_back=True):
            return (
                "recovering",
                f"Its worker let go of {event.step}, which ran alone: the next one runs it alone again.",
                "",
            )
        case ev.StepStarted():
            return "recovering", f"{event.step} runs alone: {event.crashes} crashes happened here.", ""
        case ev.RetractionFound():
            return "retracting", f"The signal of case {event.of_case} is {event.kind}.", event.reason
        case ev.CancelRequested():
            return "cancelled", f"{event.requested_by} asked to end the case.", event.reason
        case _:
            return "other", type(event).__name__, ""


def last_findings(records: Iterable[JournalRecord]) -> Findings | None:
    """Return the findings of the last search, which include those of the searches before it; None without a search."""
    found = [r.event.findings for r in records if r.accepted and isinstance(r.event, ev.SearchCompleted)]
    return found[-1] if found else None


def critique_of(records: Iterable[JournalRecord]) -> ev.EvidenceCritiqued | None:
    found = [r.event for r in records if r.accepted and isinstance(r.event, ev.EvidenceCritiqued)]
    return found[-1] if found else None


def signal_of(records: Iterable[JournalRecord]) -> tuple[Signal, tuple[Adjustment, ...]] | None:
    """Return the signal that the case ended with, and its adjustments; None without a signal."""
    found = [r.event for r in records if r.accepted and isinstance(r.event, ev.SignalSynthesized)]
    return (found[-1].signal, found[-1].adjustments or found[-1].signal.adjustments) if found else None


def waterfall(signal: Signal, adjustments: Iterable[Adjustment]) -> list[WaterfallStep]:
    """Return how the preliminary confidence became the final one, rule by rule."""
    at = signal.preliminary_confidence
    rows = [WaterfallStep(rule="preliminary", amount=None, confidence=at, reason="the first judgement")]
    for one in adjustments:
        at += one.amount
        rows.append(WaterfallStep(rule=one.rule, amount=one.amount, confidence=at, reason=one.reason))
    return [*rows, WaterfallStep(rule="final", amount=None, confidence=signal.confidence)]


def calls_of(records: Iterable[JournalRecord]) -> list[CaseCall]:
    """Return every call. Calls of ignored records are included: they cost as much."""
    return [
        CaseCall(**msgspec.structs.asdict(call), event=r.envelope.type.removeprefix(ev.PREFIX), accepted=r.accepted)
        for r in records
        for call in r.event.calls
    ]
