"""What the tellings of one story amount to: each is a page of its owner, judged as pages are, by the word rules alone."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from agents.core.case import Case
from agents.evidence.compiled import Compiled, compiled
from agents.evidence.findings import assess
from agents.evidence.hosts import host_of
from agents.evidence.owners import owner_of
from agents.evidence.stated import claim_of
from agents.judging import judged_case
from agents.signal import evidence_of
from schemas.effects import Telling
from schemas.events import StoryCorroborated
from schemas.evidence import SearchResult
from schemas.ids import signal_id
from schemas.signals import ACTED_ON


def corroboration(case: Case, tellings: Sequence[Telling], mine: Telling) -> StoryCorroborated | None:
    """Return what this telling makes of the story's first one; None where it is no new witness, or they prove nothing.

    ``tellings``: the earlier ones, the first one first; ``mine``: this case's. One without an address is no page. Neither the first one's owner nor whoever cites it bears it out, and
    who cites somebody else is one voice with them. Without a critic nothing is confirmed but by a party's own page.
    """
    first, tables = tellings[0], compiled(case.config.tables)
    voices: dict[str, Telling] = {}
    for telling in (*tellings[1:], mine):
        if telling.url is not None and telling.url != first.url:
            voices.setdefault(_voice(telling, tables), telling)
    voices.pop(_voice(first, tables), None)
    if mine not in voices.values():
        return None
    claimed = _told_by(first, case)
    findings = assess(
        claim_of(claimed),
        [_as_page(t) for t in voices.values()],
        query="",
        snapshot=case.config,
        searched_at=case.as_of,
        worked_out=case.worked_out,
    )
    judged = judged_case(claimed, findings=findings)
    judgement = judged.judgement
    if judgement.verdict not in ACTED_ON:
        return None
    return StoryCorroborated(
        signal_id=signal_id(case.run_id, first.case_id),
        of_case=first.case_id,
        verdict=judgement.verdict,
        amount=round((judgement.low + judgement.high) / 2, 4),
        action=case.draft.action,
        direction=case.draft.direction,
        supporting_sources=judgement.supporting_sources,
        independent_sources=judgement.independent_sources,
        reason=_reason(case, first, judgement.supporting_sources),
        evidence=evidence_of(claimed, judged.heard),
    )


def _voice(telling: Telling, tables: Compiled) -> str:
    """Return whose word a telling is: the medium that it names as its source, else its page's owner."""
    own = telling.group or (owner_of(telling.url, tables.directory) if telling.url else f"source:{telling.source}")
    cited = tables.directory.outlet_of(telling.text)
    return cited.domain if cited is not None else own


def _told_by(first: Telling, case: Case) -> Case:
    """Return the case as if its news were the first telling, whose claim is judged; what both state is the same."""
    origins = (first.url,) if first.url else ()
    news = replace(case.news, text=first.text, url=first.url, origins=(*case.news.origins, *origins))
    return replace(case, received=replace(case.received, news=news, language=first.language))


def _as_page(telling: Telling) -> SearchResult:
    title, _, rest = telling.text.strip().partition("\n")
    return SearchResult(
        title=title,
        url=telling.url or "",
        domain=host_of(telling.url or ""),
        snippet=rest.strip() or title,
        score=1.0,
        published_at=telling.published_at,
        provider="listener",
        content_complete=False,
    )


def _reason(case: Case, first: Telling, owners: int) -> str:
    when, told = f"{case.as_of:%Y-%m-%d %H:%M} UTC", case.case_id
    if first.language == "zh":
        return f"另有 {owners} 个来源报道了同一事件(最近为案例 {told}, {when})"
    sources = "1 other source tells" if owners == 1 else f"{owners} other sources tell"
    return f"{sources} the same event (the last one: case {told}, {when})"
