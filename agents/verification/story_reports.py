"""Reports of one event: what other owners' reports corroborate, and which of several analysed signals remains.

Each report is a page of its owner, judged like any page, by the word rules alone. After a critique, the better founded
signal remains and supersedes the others.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from agents.core.case import Case, Replies
from agents.evidence.compiled import Compiled, compiled
from agents.evidence.findings import assess
from agents.evidence.news_claim import claim_of
from agents.evidence.owners import owner_of
from agents.evidence.story import adds_nothing
from agents.evidence.verdict import better_founded
from agents.judging import CaseJudgement, judge_case
from agents.signal import evidence_of
from agents.text.hosts import host_of
from schemas.effects import FindStory, StoryReply, StoryReport
from schemas.events import ConcernedSignal, EvidenceCritiqued, Rival, StoryCorroborated
from schemas.evidence import SearchResult
from schemas.ids import signal_id
from schemas.news import NOT_LIVE_FLAGS, flags_of
from schemas.signals import ACTED_ON, Draft, Verdict

TITLE_WIDTH = 20
"""Minimum width of a report's text in columns, as for the search ``feeds``: many reports are a title alone."""


def corroborate(
    case: Case, first: StoryReport, reports: Sequence[StoryReport], mine: StoryReport
) -> StoryCorroborated | None:
    """Return the corroboration of the signal that this report joins; None if it adds no witness or changes no verdict.

    ``first``: the report with that signal; ``reports``: the other reports of the story; ``mine``: this case's report. The
    first report's own claim is judged, so only reports that state all its slots count, and their order must be the same. A
    report without an address is no page. Neither the first report's owner nor a report that cites it corroborates it. A
    report that cites another medium counts as that medium. Without a critic, only a party's own page can confirm.
    """
    claimed, tables = _first_case(first, case), compiled(case.config.tables)
    if claimed is None or _order(claimed.draft) != _order(case.draft):
        return None
    voices: dict[str, StoryReport] = {}
    own = replace(mine, story=case.triaged.story if case.triaged else None)
    for report in (*(r for r in reports if r.joined), own):
        if report.url is not None and report.url != first.url and _states_all(first, report):
            voices.setdefault(_voice(report, tables), report)
    voices.pop(_voice(first, tables), None)
    if own not in voices.values():
        return None
    widths = {**case.config.quality_widths, _PROVIDER: TITLE_WIDTH}
    findings = assess(
        claim_of(claimed),
        [_as_page(t) for t in voices.values()],
        query="",
        snapshot=replace(case.config, quality_widths=widths),
        searched_at=case.as_of,
        memo=case.memo,
    )
    judged = judge_case(claimed, findings=findings)
    judgement = judged.judgement
    if judgement.verdict not in ACTED_ON:
        return None
    return StoryCorroborated(
        signal_id=signal_id(case.run_id, first.case_id),
        of_case=first.case_id,
        verdict=judgement.verdict,
        amount=round((judgement.low + judgement.high) / 2, 4),
        asset=case.draft.asset,
        action=case.draft.action,
        direction=case.draft.direction,
        supporting_sources=judgement.supporting_sources,
        independent_sources=judgement.independent_sources,
        reason=_reason(case, first, judgement.supporting_sources),
        evidence=evidence_of(claimed, judged.pages),
        live=NOT_LIVE_FLAGS.isdisjoint(flags_of(case.news)),
        sell_from=case.config.sell_from,
    )


_PROVIDER = "listener"


def _order(draft: Draft) -> tuple[str, str, str]:
    return draft.asset, draft.action, draft.direction


def _states_all(first: StoryReport, report: StoryReport) -> bool:
    """Return whether two reports state the same slots, so neither adds anything to the other."""
    earlier, later = first.story, report.story
    return earlier is not None and later is not None and adds_nothing(earlier, later) and adds_nothing(later, earlier)


def _voice(report: StoryReport, tables: Compiled) -> str:
    """Return the source of a report: the medium that it cites, else the owner of its page."""
    own = report.group or (owner_of(report.url, tables.directory) if report.url else f"source:{report.source}")
    cited = tables.directory.outlet_of(report.text)
    return cited.domain if cited is not None else own


def _first_case(first: StoryReport, case: Case) -> Case | None:
    """Return the case as if its news were the first report, with that report's draft and claim."""
    if case.triaged is None or first.draft is None:
        return None
    origins = (first.url,) if first.url else ()
    news = replace(case.news, text=first.text, url=first.url, origins=(*case.news.origins, *origins))
    return replace(
        case,
        received=replace(case.received, news=news, language=first.language, part=None),
        triaged=replace(case.triaged, draft=first.draft, claim=first.claim, part=None),
    )


def _as_page(report: StoryReport) -> SearchResult:
    title, _, rest = report.text.strip().partition("\n")
    return SearchResult(
        title=title,
        url=report.url or "",
        domain=host_of(report.url or ""),
        snippet=rest.strip() or title,
        score=1.0,
        published_at=report.published_at,
        provider=_PROVIDER,
        content_complete=False,
    )


def _reason(case: Case, first: StoryReport, owners: int) -> str:
    when = f"{case.as_of:%Y-%m-%d %H:%M} UTC"
    if first.language == "zh":
        return f"另有 {owners} 个信源报道了同一事件（最近为案例 {case.case_id}，{when}）"
    sources = "1 other source reports" if owners == 1 else f"{owners} other sources report"
    return f"{sources} the same event (the last one: case {case.case_id}, {when})"


def earlier_reports_query(case: Case) -> FindStory | None:
    """Return the query for the present state of the earlier reports; None without any."""
    if case.story is None or not case.story.earlier:
        return None
    return FindStory(case_id=case.case_id, hours=case.config.story_window_hours, again=True)


def settle_rivals(
    case: Case, critique: EvidenceCritiqued, judged: CaseJudgement, replies: Replies
) -> EvidenceCritiqued:
    """Return the critique with the earlier signals that this case supersedes, or with the one that makes its own redundant.

    Publish compares the signal of a case that is still running, once both have ended.
    """
    own_page = any(page.own_word for page in judged.pages)
    verdict, known = judged.judgement.verdict, _verdicts(case, replies)
    superseded = []
    for report in case.story.earlier if case.story is not None else ():
        theirs = known.get(report.case_id, report.verdict)
        stays = better_founded(verdict, theirs, own_page=own_page) if theirs is not None else "later"
        if stays == "earlier" and report.same_slots and not critique.concerned:
            return replace(critique, route="same_story", same_story_as=report.case_id)
        if stays == "later":
            superseded.append(
                ConcernedSignal(
                    signal_id=signal_id(case.run_id, report.case_id),
                    of_case=report.case_id,
                    kind="superseded",
                    language=report.language,
                    rival=Rival(verdict=verdict, own_page=own_page, same_slots=report.same_slots),
                )
            )
    denied = {c.of_case for c in critique.concerned}
    concerned = (*critique.concerned, *(c for c in superseded if c.of_case not in denied))
    return replace(critique, concerned=concerned, route="retract" if concerned else "synthesize")


def _verdicts(case: Case, replies: Replies) -> dict[str, Verdict]:
    asked = earlier_reports_query(case)
    reply = None if asked is None else replies.of(asked)
    return {r.case_id: r.verdict for r in reply.tellings if r.verdict} if isinstance(reply, StoryReply) else {}
