"""``newsproof export signals``: every revision of every signal with the time from which a bot could know it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from newsproof.app.data_access import database
from newsproof.app.invocation import Invocation
from schemas.errors import ConfigError
from schemas.ids import LIVE_RUN

# A revision is caused by an event of its own case, or of the case that denies or corrects it. For news that was live, nobody
# had it before it was on the topic. For news of the past it is when the causing news could be known, as for outcomes.
_REVISIONS = """
WITH received AS
(
    SELECT case_id AS news_case, argMin(knowable_at, journal_offset) AS knowable, argMin(ifNull(live, false), journal_offset) AS was_live
    FROM events WHERE run_id = {run:String} AND event_type = 'newsproof.event_received' GROUP BY case_id
),
caused AS
(
    SELECT event_id, any(case_id) AS of_case FROM events
    WHERE event_id IN (SELECT cause_id FROM signals WHERE run_id = {run:String}) GROUP BY event_id
)
SELECT max(from_then) OVER (PARTITION BY signal_id ORDER BY revision) AS available_at,
       live, signal_id, revision, stage, verdict, action, direction, asset, symbol, venue, confidence, event_type,
       if(live, until, available_at + toIntervalSecond(horizon_s)) AS valid_until, horizon_s, supporting_sources,
       arrayStringConcat(risk_flags, ' ') AS risk_flags, provider_mode, news_source, language, published_at, decided_at,
       emitted_at, case_id, summary, summary_en, summary_zh
FROM
(
    SELECT s.* EXCEPT (valid_until), s.valid_until AS until, own.was_live AS live,
           if(live OR cause.knowable IS NULL OR cause.was_live, s.emitted_at, assumeNotNull(cause.knowable)) AS from_then
    FROM (SELECT * FROM signals FINAL WHERE run_id = {run:String}) AS s
    LEFT JOIN caused AS c ON c.event_id = s.cause_id
    LEFT JOIN received AS cause ON cause.news_case = c.of_case
    LEFT JOIN received AS own ON own.news_case = s.case_id
)
"""
_EVERY = f"SELECT * FROM ({_REVISIONS}) ORDER BY available_at, signal_id, revision"
_LATEST = (
    f"SELECT * FROM (SELECT * FROM ({_REVISIONS}) ORDER BY signal_id, revision DESC LIMIT 1 BY signal_id) "
    "ORDER BY available_at, signal_id"
)
_SHAPES = {".parquet": "Parquet", ".csv": "CSVWithNames"}


class SignalExport(msgspec.Struct, frozen=True, kw_only=True):
    """What was written. ``live``: rows of news that was judged as it came in."""

    file: str
    rows: int
    live: int


async def export_signals(
    invocation: Invocation, file: Path, *, point_in_time: bool, overwrite: bool = False
) -> SignalExport:
    """Write the live run's signals to a Parquet or CSV file, whole or not at all.

    With ``point_in_time`` there is one row per revision, and a row holds nothing that was known after its
    ``available_at``; else one per signal, its latest revision.

    Raises:
        ConfigError: the file's name has another ending, or it is there and ``overwrite`` is not set, or it cannot be
            written.
    """
    shape = _SHAPES.get(file.suffix)
    if shape is None:
        raise ConfigError(f"{file}: name a file that ends in {' or '.join(_SHAPES)}")
    if await asyncio.to_thread(file.exists) and not overwrite:
        raise ConfigError(f"{file} exists: name another file, or add --overwrite")
    query, asked = _EVERY if point_in_time else _LATEST, {"run": LIVE_RUN}
    async with database(invocation, admin=True) as client:
        # One engine's memory holds it: a signal is about 2 kB.
        content = await client.raw(query, asked, shape=shape)
        counted = await client.query(f"SELECT count(), countIf(live) FROM ({query})", asked)
    await asyncio.to_thread(_write, file, content)
    rows, live = counted.rows[0]
    return SignalExport(file=str(file), rows=rows, live=live)


def _write(file: Path, content: bytes) -> None:
    unfinished = file.with_name(f".unfinished-{file.name}")
    try:
        unfinished.write_bytes(content)
        unfinished.replace(file)
    except OSError as exc:
        unfinished.unlink(missing_ok=True)
        raise ConfigError(f"{file} cannot be written ({exc.strerror}): choose another path") from exc
