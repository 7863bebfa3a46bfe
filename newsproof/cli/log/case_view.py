"""``newsproof case``: finds a case and prints its whole story, as JSON or for a person."""

from __future__ import annotations

from collections.abc import Sequence

from infra.kafka.topics import KafkaAddress
from newsproof.app.invocation import say_result, table
from newsproof.report import narrative
from newsproof.report.case_document import CaseDocument, document_of
from newsproof.report.demo import shortened
from newsproof.report.wording import Language
from schemas.errors import ConfigError
from schemas.events import EvidenceCritiqued
from schemas.printable import counted
from schemas.signals import WITHDRAWN, Signal
from schemas.topics import Topics
from streams.journal.case_reading import CaseRow, JournalRecord, named_by, read_cases
from streams.journal.log import KafkaLog


async def find_case(address: KafkaAddress, topics: Topics, wanted: str) -> str:
    """Return the id of the case that is named by its id, an unambiguous prefix of it, or the news's external id.

    Raises:
        ConfigError: no case or several cases match; the text lists candidates.
    """
    cases = await read_cases(KafkaLog(address), topics)
    if found := named_by(cases, wanted):
        return _only(found, wanted)
    known = ", ".join(sorted({c.external_id or c.case_id[:8] for c in cases})[:12]) or "none at all"
    raise ConfigError(
        f"no case is called {wanted!r}: give a case id, at least 4 of its first characters, or the news's external id "
        "(the demo's cases: --data-dir .data/demo). "
        f"This log knows {counted(len(cases), 'case')}: {known}{' …' if len(cases) > 12 else ''}. `newsproof cases` lists them"
    )


def _only(found: Sequence[CaseRow], wanted: str) -> str:
    if len(found) == 1:
        return found[0].case_id
    listed = "; ".join(f"{c.case_id} ({c.source}, {shortened(c.text, 40)})" for c in found[:8])
    raise ConfigError(f"{counted(len(found), 'case')} are called {wanted!r}, give one case id: {listed}")


def print_story(
    records: Sequence[JournalRecord], revisions: Sequence[Signal] = (), *, language: Language = "en"
) -> None:
    """Print the story on standard output. ``revisions`` are those of its signal, as published: the last is how it stands."""
    document = document_of(records, revisions)
    took = (records[-1].envelope.time - records[0].envelope.time).total_seconds()
    _print_news(document, f"{counted(len(records), 'record')} in {took:.2f} s")
    say_result(f"{document.sentence.of(language)}\n")
    if revisions and (last := revisions[-1]).stage in WITHDRAWN:
        # First, for everything below tells how the signal came about that no longer stands.
        said = f"{last.stage.capitalize()} at {last.decided_at:%Y-%m-%d %H:%M:%S} UTC: {narrative.action_in_words(last).en}"
        say_result(f"{said} {last.confidence:.2f} ({narrative.verdict_in_words(last).en}); below, what came before.\n")
    rows = [
        (f"+{line.after_s:.2f} s", line.phase, line.what_zh, line.thought_zh)
        if language == "zh"
        else (f"+{line.after_s:.2f} s", line.phase, line.what, line.thought)
        for line in document.timeline
    ]
    table(("after", "phase", "what happened", "why"), rows, title="What happened", right=("after",))
    _print_evidence(document)
    _print_critique(document.critique)
    _print_signal(document, revisions, language)
    _print_revisions(revisions)
    _print_calls(document.calls)
    if document.passed_by:
        table(
            ("offset", "appended", "event", "cause"),
            [(r.offset, r.appended_at, r.envelope.type, r.envelope.causation_id) for r in document.passed_by],
            title="Records passed by (late or doubled answers; they changed nothing)",
        )


def _print_news(document: CaseDocument, extent: str) -> None:
    say_result(f"Case {document.case_id}")
    if (news := document.news) is None:
        return say_result(extent)
    known = [news.source, news.external_id, f"published {news.published_at:%Y-%m-%d %H:%M} UTC", extent]
    say_result(" · ".join(k for k in known if k))
    say_result(f"\n  {news.text}\n")


def _print_evidence(document: CaseDocument) -> None:
    found, critique, pages = document.findings, document.critique, document.pages
    if found is None:
        return
    rows = [
        (
            r.reference_number,
            r.registrable_domain,
            (r.speaker or "yes") if r.official else "",
            "yes" if r.independent else "",
            page.stance,
            f"{r.published_at:%Y-%m-%d}" if r.published_at else "–",
            r.source_credibility,
            f"{r.quality_score:.0f}",
            r.title,
        )
        for r, page in zip(found.references, pages, strict=True)
    ]
    columns = ("#", "domain", "official", "independent", "says", "published", "credibility", "quality", "title")
    table(columns, rows, title=f"Evidence: {narrative.findings_in_words(found).en}", right=("#", "quality"))
    if critique is not None and critique.stances is not None:
        read = [
            (
                p.reference_number,
                p.stance,
                narrative.speaker_in_words(r, p.said),
                (p.said and p.said.quote) or "",
                narrative.doubts_in_words(p),
            )
            for r, p in zip(found.references, pages, strict=True)
        ]
        heads = ("#", "says", "who speaks", "in these words", "why")
        table(heads, read, title="What each page says, as the critic read it", right=("#",))
    if critique is not None:
        say_result(f"{narrative.readers_in_words(critique).en}\n")
    if found.dropped:
        not_used = [(d.reason, d.url, d.title) for d in found.dropped]
        table(("why not", "address", "title"), not_used, title="Results that were not used")


def _print_critique(critique: EvidenceCritiqued | None) -> None:
    if critique is not None and critique.claims:
        rows = [
            (
                c.claim,
                narrative.CRITIC_SAYS[c.verdict].en,
                c.reliability,
                " ".join(f"[{n}]" for n in c.reference_numbers),
                c.reason,
            )
            for c in critique.claims
        ]
        table(("claim", "verdict", "reliability", "says so", "reason"), rows, title="Critique, claim by claim")


def _print_signal(document: CaseDocument, revisions: Sequence[Signal], language: Language) -> None:
    if document.signal is None or document.confidence is None:
        return
    rows = [
        (
            step.rule,
            "" if step.amount is None else f"{step.amount:+.2f}",
            f"{step.confidence:.2f}",
            step.reason_zh if language == "zh" else step.reason,
        )
        for step in document.confidence
    ]
    table(
        ("rule", "change", "confidence", "reason"),
        rows,
        title="How the confidence came about",
        right=("change", "confidence"),
    )
    s = revisions[-1] if revisions else document.signal
    flags = " ".join(s.risk_flags) or "none"
    says = (
        f"{narrative.action_in_words(s).en} {s.asset} ({s.direction}, {s.strength}, {s.timeframe}), {s.confidence:.2f}"
    )
    say_result(f"Signal {s.signal_id}: {says}; {s.stage}, {narrative.verdict_in_words(s).en}")
    say_result(f"  {narrative.summary_in(s, language)}")
    say_result(f"  {narrative.sources_in_words(s)}")
    say_result(f"  valid until {s.valid_until:%Y-%m-%d %H:%M} UTC · flags: {flags} · judged by {s.model or 'rules'}")
    for link in s.links:
        say_result(f"  {link}")
    say_result()


def _print_revisions(revisions: Sequence[Signal]) -> None:
    if len(revisions) < 2:
        return
    rows = [
        (
            s.revision,
            s.stage,
            narrative.verdict_in_words(s).en,
            narrative.action_in_words(s).en,
            f"{s.confidence:.2f}",
            f"{s.decided_at:%Y-%m-%d %H:%M:%S}",
            s.notes,
        )
        for s in revisions
    ]
    columns = ("revision", "stage", "verdict", "action", "confidence", "decided (UTC)", "notes")
    table(columns, rows, title="Revisions of the signal, as published", right=("revision", "confidence"))


def _print_calls(calls: Sequence[narrative.CaseCall]) -> None:
    rows = [
        (
            call.event,
            call.kind,
            call.model or call.provider,
            call.mode,
            f"{call.prompt_name} v{call.prompt_version}" if call.prompt_name else "",
            f"{call.latency_ms:.0f}",
            call.usage_input_tokens + call.usage_output_tokens or "",
            "unknown" if call.cost_usd is None else f"{call.cost_usd:.5f}",
            call.error or ("" if call.accepted else "in a record passed by"),
        )
        for call in calls
    ]
    costs = [call.cost_usd for call in calls]
    known = sum(c for c in costs if c is not None)
    unpriced = f", {counted(costs.count(None), 'call')} of unknown price" if None in costs else ""
    columns = ("event", "call", "by", "mode", "prompt", "ms", "tokens", "USD", "error")
    title = f"{counted(len(calls), 'call')}, {known:.5f} USD{unpriced}"
    table(columns, rows, title=title, right=("ms", "tokens", "USD"))
