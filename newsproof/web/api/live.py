"""Routes of signals, cases, and the live stream of both."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Depends, Header, Path, Query, Request
from msgspec.structs import replace
from starlette.responses import Response

from newsproof.report.case_document import document_of
from newsproof.report.recorded_reasons import translate_reason
from newsproof.web.api.case_tables import Before, cases_called, cases_page, offsets_of_case, revisions_of, withdrawn_of
from newsproof.web.backend import Backend
from newsproof.web.guard import client_of
from newsproof.web.responses import Events, Refused, as_json
from schemas.errors import NewsproofError
from schemas.ids import signal_id
from schemas.signals import Action, Stage, Verdict
from streams.feed.case_items import FeedCase, FeedFilter
from streams.feed.sse import live_events
from streams.feed.window import Place
from streams.journal.case_reading import JournalRecord, named_by
from streams.journal.clock import utc_now

router = APIRouter(prefix="/api/v1", tags=["live"])

CASE_ID = r"^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
TABLES_WITHIN_S = 15.0
LATE_RECORDS = 2_000
UNSUNK_RECORDS = 100_000
"""Number of records before a partition's end in which to search for a case that ClickHouse does not have."""
Asset = Annotated[str, Query(max_length=1_000, description="Only this asset, such as BTC, or these: BTC,ETH.")]
Kind = Annotated[str, Query(max_length=40, description="Only this event type, such as listing.")]
Least = Annotated[float, Query(ge=0, le=1, description="Minimum confidence.")]
Source = Annotated[str, Query(max_length=256, description="Only news from this source.")]
Acts = Annotated[Action | None, Query(description="Only signals with this action.")]
Judged = Annotated[Verdict | None, Query(description="Only signals with this verdict.")]
Sources = Annotated[int, Query(ge=0, le=1000, description="Minimum number of supporting sources.")]
Words = Annotated[
    str, Query(max_length=200, description="Words that the summary, asset, source or case ID contains, all of them.")
]
Limit = Annotated[int, Query(ge=1, le=200)]
Earlier = Annotated[str | None, Query(max_length=12_000, alias="before", description="`next` of the previous page.")]


def backend_of(request: Request) -> Backend:
    backend: Backend = request.app.state.backend
    return backend


def signals_wanted(
    asset: Asset = "",
    event_type: Kind = "",
    min_confidence: Least = 0.0,
    verdict: Judged = None,
    action: Acts = None,
    source: Source = "",
    min_sources: Sources = 0,
    q: Words = "",
) -> FeedFilter:
    """Return the filter for a list or a stream of signals."""
    return FeedFilter(
        asset=asset,
        event_type=event_type,
        min_confidence=min_confidence,
        source=source,
        action=action or "",
        verdict=verdict or "",
        min_sources=min_sources,
        text=q,
    )


Wanted = Annotated[FeedFilter, Depends(signals_wanted)]


@router.get("/status")
async def status(request: Request) -> Response:
    """Return the mode, the state of Kafka, ClickHouse, workers and providers, and the pipeline's metrics.

    Unknown values are null.
    """
    return as_json(await backend_of(request).status())


@router.get("/signals")
async def signals(
    request: Request,
    wanted: Wanted,
    stage: Annotated[Stage | None, Query(description="Only signals in this stage.")] = None,
    limit: Limit = 50,
    before: Earlier = None,
) -> Response:
    """Return published signals, newest first, each in its latest revision.

    `after` is the position from which to open the stream without a gap.
    """
    backend = backend_of(request)
    wanted = replace(wanted, stage=stage or "")
    place = str(backend.feed.window.place) if backend.feed.ready else None
    page = await backend.signals.page(wanted, limit=limit, before=before, newest=backend.feed.newest)
    return as_json({"items": page.items, "next": page.next, "after": place})


@router.get("/cases")
async def cases(
    request: Request,
    state: Annotated[Literal["open", "ended"] | None, Query(description="Only open or ended cases.")] = None,
    asset: Asset = "",
    event_type: Kind = "",
    q: Annotated[
        str, Query(max_length=200, description="Words in the news text, its source or ID, or the case ID.")
    ] = "",
    limit: Limit = 50,
    before: Earlier = None,
) -> Response:
    """Return summaries of cases, newest first.

    While ClickHouse is unavailable, only the cases in this process's memory are returned, with a `note`.
    """
    backend = backend_of(request)
    wanted = FeedFilter(asset=asset, event_type=event_type, state=state or "", text=q.strip())
    at = None if before is None else Before.read(before)
    place = str(backend.feed.window.place) if backend.feed.ready else None
    known = {c.case_id: c for c in backend.feed.recent_cases()}
    by_id = {case.case_id: case for case in known.values() if wanted.takes(case) and (at is None or not at.hides(case))}
    note = ""
    if state != "open" or wanted.text:  # all open cases are known here, but only the beginnings of their texts
        try:
            for case in await _from_tables(backend, wanted, limit + 1, at):
                newer = known.get(case.case_id, case)  # the case known here may have advanced since
                if newer is case or replace(wanted, text="").takes(newer):
                    by_id[case.case_id] = newer
        except (NewsproofError, TimeoutError):
            note = "ClickHouse is not responding, so only recent cases are listed: those that this server has read."
    items = sorted(by_id.values(), key=lambda c: (Before.of(c).ms, c.case_id), reverse=True)
    more = len(items) > limit
    items = await _as_they_stand(backend, items[:limit])
    return as_json({"items": items, "next": str(Before.of(items[-1])) if more else None, "note": note, "after": place})


async def _as_they_stand(backend: Backend, items: Sequence[FeedCase]) -> list[FeedCase]:
    """Return the cases; those with a withdrawn signal, with its present state. Without ClickHouse, as they ended."""
    try:
        async with asyncio.timeout(TABLES_WITHIN_S):
            withdrawn = await withdrawn_of(backend.reachable_tables(), [c.case_id for c in items])
    except (NewsproofError, TimeoutError):
        return list(items)
    return [replace(case, **withdrawn.get(case.case_id, {})) for case in items]


async def _from_tables(backend: Backend, wanted: FeedFilter, limit: int, before: Before | None) -> list[FeedCase]:
    async with asyncio.timeout(TABLES_WITHIN_S):
        return await cases_page(backend.reachable_tables(), wanted, limit=limit, before=before)


@router.get("/cases/{case_id:path}")
async def case(
    request: Request,
    case_id: Annotated[
        str,
        Path(
            max_length=1_000,
            pattern=r"^[^\x00-\x1f\x7f-\x9f]+$",
            description="Case ID, at least 4 of its first characters, or the external ID of its news.",
        ),
    ],
) -> Response:
    """Return all data of a case: timeline, evidence, critique, confidence, calls and raw events."""
    backend = backend_of(request)
    if re.fullmatch(CASE_ID, case_id) is None:
        case_id = await _called(backend, case_id)
    records, note = await _records_of(backend, case_id), ""
    if not any(r.accepted for r in records):
        raise Refused(404, f"there is no case {case_id}", "see /api/v1/cases for all cases")
    revisions: list[dict[str, Any]] = []
    try:
        async with asyncio.timeout(TABLES_WITHIN_S):
            revisions = await revisions_of(backend.reachable_tables(), signal_id("live", case_id))
    except (NewsproofError, TimeoutError):
        note = "ClickHouse is not responding, so revisions of the signal are missing here."
    return as_json(shown(records, revisions, note))


async def _called(backend: Backend, wanted: str) -> str:
    """Return the id of the only case with this name, from memory and ClickHouse.

    Raises:
        Refused: there is none, or several.
    """
    known = {case.case_id: case for case in backend.feed.recent_cases()}
    note = ""
    try:
        async with asyncio.timeout(TABLES_WITHIN_S):
            known = {case.case_id: case for case in await cases_called(backend.reachable_tables(), wanted)} | known
    except (NewsproofError, TimeoutError):
        note = " among those that this server has read (ClickHouse is not responding)"
    matches = named_by(list(known.values()), wanted)
    if len(matches) == 1:
        return matches[0].case_id
    if not matches:
        do = (
            "give a case ID, at least 4 of its first characters, or the external ID of its news; /cases lists all cases"
        )
        raise Refused(404, f"no case matches {wanted[:100]!r}{note}", do)
    listed = "; ".join(f"{case.case_id} ({case.source}, {case.text[:40]})" for case in matches[:8])
    raise Refused(409, f"{len(matches)} cases match {wanted[:100]!r}", f"give one case ID: {listed}")


def shown(records: Sequence[JournalRecord], revisions: Sequence[dict[str, Any]], note: str) -> dict[str, Any]:
    """Return the document of a case, with the parts that only the page shows: its row in lists and all its records."""
    row = FeedCase(case_id=records[0].envelope.case_id, received_at=records[0].envelope.time)
    for record in records:
        if record.accepted:
            row.take(record.envelope, record.event)
    rows = [
        revision | {"notes_en": notes.en, "notes_zh": notes.zh}
        for revision in revisions
        for notes in [translate_reason(revision["notes"])]
    ]
    return msgspec.structs.asdict(document_of(records, rows)) | {"case": row, "events": records, "note": note}


async def _records_of(backend: Backend, case_id: str) -> list[JournalRecord]:
    """Read a case's records. Memory or ClickHouse supplies their offsets; without ClickHouse, scan the partition."""
    offsets = backend.feed.offsets_of(case_id)
    if offsets is None:
        try:
            async with asyncio.timeout(TABLES_WITHIN_S):
                offsets = await offsets_of_case(backend.reachable_tables(), case_id)
        except (NewsproofError, TimeoutError):
            offsets = (0, None)
        if offsets is None:  # the sink may be lagging
            return await backend.cases.read(case_id, newest=UNSUNK_RECORDS)
    first, end = offsets
    # Read past its end, too: late records were ignored, but paid for, and are shown.
    through = None if end is None else end + LATE_RECORDS
    return await backend.cases.read(case_id, first=first, through=through)


@router.get("/stream", response_class=Response, responses={200: {"content": {"text/event-stream": {}}}})
async def stream(
    request: Request,
    wanted: Wanted,
    after: Annotated[
        str | None, Query(max_length=12_000, description="Resume position: `after` of a list, or the ID of an event.")
    ] = None,
    last_event_id: Annotated[str | None, Header(max_length=12_000)] = None,
) -> Response:
    """Send `signal` and `case` events as they happen. Verdict, action, sources and `q` filter only signals.

    A revision is also sent if an earlier one matched all filters but `q`: the words of earlier ones are not kept.
    With `Last-Event-ID` or `after`, everything since then is sent first. A `gap` event reports events no longer in
    memory.
    """
    backend = backend_of(request)
    given = last_event_id or after
    place = Place.read(given) if given else None
    ended = backend.places.take(client_of(request.scope))
    return Events(live_events(backend.feed, wanted, place, now=utc_now()), ending=backend.ending, ended=ended)
