"""The synthesize step: the final signal. Rules set the bounds; a model chooses inside them and writes the reason."""

from __future__ import annotations

from msgspec.structs import replace

from agents.core.answers import SynthesisAnswer, answer, cite_only, one_line
from agents.core.asking import ask_model, facts, findings_facts, memory_parts, news_parts, reference_parts
from agents.core.case import Case, Replies
from agents.core.step import Asked, On, only_reply
from agents.evidence.policy import Verdict, bounds
from agents.planning.rounds import findings_so_far, skipped_flags
from agents.planning.tool_answers import tool_facts, tool_parts
from agents.signal import judged_signal
from schemas.events import Event, EvidenceCritiqued, RetractionFound, SignalSynthesized
from schemas.evidence import Findings
from schemas.signals import Draft, SignalStatus


class SynthesizeSignal:
    """The model may soften an action to observe. It cannot turn buy into sell or leave the bounds."""

    name = "synthesize"
    takes = (On(EvidenceCritiqued, route="synthesize"), On(RetractionFound, route="synthesize"))
    emits = (SignalSynthesized,)

    def ask(self, case: Case) -> Asked:
        findings, verdict = findings_so_far(case), _verdict(case)
        rule, low, high = bounds(findings, verdict)
        known = facts(
            **findings_facts(findings),
            **tool_facts(case),
            verdict=verdict,
            rule=rule,
            lowest=low,
            highest=high,
            draft=_figures(case.draft),
        )
        memories = memory_parts(case.context.entries if case.context else ())
        return ask_model(
            case,
            "synthesize",
            (*news_parts(case), known, *memories, *reference_parts(findings), *tool_parts(case)),
            lowest=f"{low:+.2f}",
            highest=f"{high:+.2f}",
        )

    def tell(self, case: Case, replies: Replies) -> Event:
        said = answer(only_reply(replies), SynthesisAnswer)
        findings = findings_so_far(case)
        signal = judged_signal(
            case,
            replies,
            _final_draft(case.draft, said, findings),
            findings,
            status=_status(case),
            chosen=said.adjustment if case.config.synthesis_choice == "model" else None,
            memory=case.context.entries if case.context else (),
            extra_flags=skipped_flags(s.outcomes for s in case.searches),
            reason=cite_only(one_line(said.reason, 400), findings),
        )
        return SignalSynthesized(signal=signal, path="deep", adjustments=signal.adjustments)


def _status(case: Case) -> SignalStatus:
    # "Verified" requires at least one answered search.
    answered = any(outcome.failure is None for search in case.searches for outcome in search.outcomes)
    return "verified" if answered else "preliminary_only"


def _final_draft(draft: Draft, said: SynthesisAnswer, findings: Findings) -> Draft:
    return replace(
        draft,
        summary=cite_only(one_line(said.summary, 300), findings) or draft.summary,
        action="observe" if said.action == "observe" else draft.action,
        strength=said.strength,
        timeframe=said.timeframe,
    )


def _figures(draft: Draft) -> dict[str, str | float]:
    return {
        "action": draft.action,
        "direction": draft.direction,
        "strength": draft.strength,
        "timeframe": draft.timeframe,
        "confidence": draft.confidence,
    }


def _verdict(case: Case) -> Verdict | None:
    return case.critique.verdict if case.critique else None


STEP = SynthesizeSignal()
