"""Route of the sources page."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Annotated, Literal

import msgspec
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from infra.kafka.topics import members_of
from infra.listeners.mark import keys_at_hand
from newsproof.app.source_list import ListedSource, listed_sources
from newsproof.web.api.live import backend_of
from newsproof.web.responses import Refused, as_json, csv_file
from streams.journal.clock import utc_now

router = APIRouter(prefix="/api/v1", tags=["sources"])

READ_WITHIN_S = 10.0


@router.get("/sources")
async def sources(
    request: Request,
    state: Annotated[str | None, Query(max_length=40, description="Only sources in this state.")] = None,
    kind: Annotated[str | None, Query(max_length=40, description="Only sources of this kind.")] = None,
    format: Literal["json", "csv"] = "json",
) -> Response:
    """Return every news source and its state in the log. Sources that need attention come first.

    `listens`: a listener runs. `has_key`: its key is available; without it, no news counts as a listed source's.
    `looked_at` is the listener's present value if it serves metrics.
    """
    backend, now = backend_of(request), utc_now()
    try:
        async with asyncio.timeout(READ_WITHIN_S):
            cursors, unmarked, listeners, (_, figures) = await asyncio.gather(
                backend.cursors.read(),
                backend.unmarked.read(),
                members_of(backend.address, backend.topics.group("listener-lease")),
                backend.processes.look(),
            )
    except TimeoutError as exc:
        raise Refused(503, "Kafka did not respond in time", "try again; /api/v1/status shows its state") from exc
    silent = {labels["source"]: s for _, labels, s in figures.of("newsproof_listener_silent_seconds")}
    items = [
        source
        if source.id not in silent
        else msgspec.structs.replace(source, looked_at=now - timedelta(seconds=silent[source.id]))
        for source in listed_sources(backend.settings, cursors, now, unmarked)
        if state in (None, source.state) and kind in (None, source.kind)
    ]
    if format == "csv":
        return csv_file("sources", ListedSource.__struct_fields__, map(msgspec.to_builtins, items))
    return as_json(
        {"at": now, "listens": bool(listeners), "has_key": bool(keys_at_hand(backend.settings)), "items": items}
    )
