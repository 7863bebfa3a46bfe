"""The synthesize step: the final signal. The verdict sets the bounds; a model chooses within them and writes the words."""

from __future__ import annotations

from msgspec.structs import replace

from agents.core.answers import SYNTHESIS_FLAGS, SynthesisAnswer, answer, cite_only, one_line
from agents.core.case import Case, Replies
from agents.core.step import On, StepRequest, only_reply
from agents.judging import judge_case
from agents.planning.rounds import skipped_flags
from agents.signal import judged_signal
from agents.verification.synthesis_call import synthesis_call
from schemas.events import Event, EvidenceCritiqued, RetractionFound, SignalSynthesized
from schemas.evidence import Findings
from schemas.signals import Draft

_OPPOSITE = {("long", "short"), ("short", "long")}


class SynthesizeSignal:
    """Lets the model soften the action to observe, and reverse the direction if the evidence reversed the claim.

    An unchecked case ends without a call: there is no evidence to write about.
    """

    name = "synthesize"
    takes = (On(EvidenceCritiqued, route="synthesize"), On(RetractionFound, route="synthesize"))
    emits = (SignalSynthesized,)

    def ask(self, case: Case) -> StepRequest:
        judged = judge_case(case)
        return self.tell(case, Replies()) if judged.why is not None else synthesis_call(case, judged)

    def tell(self, case: Case, replies: Replies) -> Event:
        judged = judge_case(case)
        response = answer(only_reply(replies), SynthesisAnswer) if judged.why is None else None
        signal = judged_signal(
            case,
            replies,
            case.draft if response is None else _final_draft(case.draft, response, judged.findings),
            judged,
            chosen=response.adjustment if response is not None and case.config.synthesis_choice == "model" else None,
            memory=case.context.entries if case.context else (),
            extra_flags=(*skipped_flags(s.outcomes for s in case.searches), *_flags(response)),
            reason="" if response is None else cite_only(one_line(response.reason, 400), judged.findings),
        )
        return SignalSynthesized(signal=signal, path="deep", adjustments=signal.adjustments)


def _final_draft(draft: Draft, response: SynthesisAnswer, findings: Findings | None) -> Draft:
    turned = (response.direction, draft.direction) in _OPPOSITE
    return replace(
        draft,
        summary=_cited_line(response.summary, findings) or draft.summary,
        summary_zh=_cited_line(response.summary_zh, findings) or draft.summary_zh,
        summary_en=_cited_line(response.summary_en, findings) or draft.summary_en,
        action="observe" if response.action == "observe" or turned else draft.action,
        direction=response.direction if turned else draft.direction,
        strength=response.strength,
        timeframe=response.timeframe,
    )


def _cited_line(text: str | None, findings: Findings | None) -> str:
    return cite_only(one_line(text or "", 300), findings)


def _flags(response: SynthesisAnswer | None) -> tuple[str, ...]:
    return tuple(f for f in response.risk_flags if f in SYNTHESIS_FLAGS) if response is not None else ()


STEP = SynthesizeSignal()
