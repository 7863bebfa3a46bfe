"""Several analysed reports of one event: after the critique, the better founded signal stays and supersedes the others."""

from __future__ import annotations

from msgspec.structs import replace

from agents.core.case import Case, Replies
from agents.evidence.verdict import better_founded
from agents.judging import Judged
from schemas.effects import FindStory, StoryReply
from schemas.events import ConcernedSignal, EvidenceCritiqued, Rival
from schemas.ids import signal_id
from schemas.signals import Verdict


def earlier_reports(case: Case) -> FindStory | None:
    """Return the question what became of the earlier reports; None where there were none."""
    if case.story is None or not case.story.earlier:
        return None
    return FindStory(case_id=case.case_id, hours=case.config.story_window_hours, again=True)


def beside_rivals(case: Case, critique: EvidenceCritiqued, judged: Judged, replies: Replies) -> EvidenceCritiqued:
    """Return the critique with the earlier signals that this case supersedes, or with the one that makes its own superfluous.

    The signal of a case that is still running is compared by publish, once both have ended.
    """
    own_page = any(h.own_word for h in judged.heard)
    verdict, known = judged.judgement.verdict, _verdicts(case, replies)
    superseded = []
    for one in case.story.earlier if case.story is not None else ():
        theirs = known.get(one.case_id, one.verdict)
        stays = better_founded(verdict, theirs, own_page=own_page) if theirs is not None else "later"
        if stays == "earlier" and one.same_slots and not critique.concerned:
            return replace(critique, route="same_story", same_story_as=one.case_id)
        if stays == "later":
            superseded.append(
                ConcernedSignal(
                    signal_id=signal_id(case.run_id, one.case_id),
                    of_case=one.case_id,
                    kind="superseded",
                    language=one.language,
                    rival=Rival(verdict=verdict, own_page=own_page, same_slots=one.same_slots),
                )
            )
    denied = {c.of_case for c in critique.concerned}
    concerned = (*critique.concerned, *(c for c in superseded if c.of_case not in denied))
    return replace(critique, concerned=concerned, route="retract" if concerned else "synthesize")


def _verdicts(case: Case, replies: Replies) -> dict[str, Verdict]:
    asked = earlier_reports(case)
    reply = None if asked is None else replies.of(asked)
    return {r.case_id: r.verdict for r in reply.tellings if r.verdict} if isinstance(reply, StoryReply) else {}
