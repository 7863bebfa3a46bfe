"""The retract step: one retraction per earlier signal that this case denies, corrects or supersedes, before its own signal."""

from __future__ import annotations

from msgspec.structs import replace

from agents.core.case import Case
from agents.core.step import AskOnly, On
from agents.judging import judge_case
from agents.signal import evidence_of
from schemas.events import ConcernedSignal, Event, EvidenceCritiqued, RetractionFound
from schemas.signals import SignalEvidence

MAX_EVIDENCE = 5
"""Maximum pages that a retraction lists, official ones first."""


class RetractSignals(AskOnly):
    """Emits one event per signal that the critique found. Needs no effect. Publish makes a revision from each event."""

    name = "retract"
    takes = (On(EvidenceCritiqued, route="retract"), On(RetractionFound, route="more"))
    emits = (RetractionFound,)

    def ask(self, case: Case) -> Event:
        concerned = case.critique.concerned if case.critique else ()
        done = len(case.retractions)
        earlier = concerned[done]
        return RetractionFound(
            signal_id=earlier.signal_id,
            of_case=earlier.of_case,
            kind=earlier.kind,
            reason=_reason(case, earlier),
            evidence=_evidence(case, earlier),
            rival=earlier.rival,
            route="more" if done + 1 < len(concerned) else "synthesize",
        )


def _reason(case: Case, earlier: ConcernedSignal) -> str:
    zh = earlier.language == "zh"
    when, source = f"{case.as_of:%Y-%m-%d %H:%M} UTC", case.case_id
    if earlier.rival is not None:
        return (
            f"案例 {source}（{when}）对同一事件的报道依据更充分"
            if zh
            else f"a better-founded report of the same event: case {source} ({when})"
        )
    if earlier.kind == "superseded":
        return f"案例 {source}（{when}）更正了该信号" if zh else f"corrected by case {source} ({when})"
    return f"案例 {source}（{when}）否认了该信号" if zh else f"denied by case {source} ({when})"


def _evidence(case: Case, earlier: ConcernedSignal) -> tuple[SignalEvidence, ...]:
    believed = [e for e in evidence_of(case, judge_case(case).pages) if e.stance == "supports"]
    best = sorted(believed, key=lambda e: (not e.official, not e.independent, e.reference_number))[:MAX_EVIDENCE]
    # Evidence that supports the denial is evidence against the denied claim.
    return tuple(best) if earlier.rival is not None else tuple(replace(e, stance="denies") for e in best)


STEP = RetractSignals()
