"""Migrations against the real engine: applied once, refused when changed, safe when two processes start at once."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest

from infra.clickhouse.client import ClickHouse, connect
from infra.clickhouse.columns import COLUMNS
from infra.clickhouse.migrate import DIRECTORY, load_migrations, migrate
from schemas.errors import ConfigError

TABLE = "CREATE TABLE IF NOT EXISTS t (n UInt8) ENGINE = MergeTree ORDER BY n;\n"


def files(directory: Path, **texts: str) -> Path:
    for name, text in texts.items():
        (directory / f"{name}.sql").write_text(text, encoding="utf-8")
    return directory


async def tables(client: ClickHouse) -> set[str]:
    return {row[0] for row in (await client.query("SHOW TABLES")).rows}


@pytest.mark.slow
async def test_two_processes_that_start_at_once_end_in_the_same_schema(empty: ClickHouse) -> None:
    async with connect(empty.address, database=empty.database) as other:
        await asyncio.gather(migrate(empty), migrate(other))
        assert await migrate(other) == ()
    recorded = await empty.query("SELECT number FROM migrations FINAL ORDER BY number")
    assert [row[0] for row in recorded.rows] == [m.number for m in load_migrations()]


async def test_a_file_that_was_changed_after_it_was_applied_is_refused(empty: ClickHouse, tmp_path: Path) -> None:
    await migrate(empty, directory=files(tmp_path, m001_t=TABLE))
    files(tmp_path, m001_t=TABLE.replace("UInt8", "UInt16"))
    with pytest.raises(ConfigError, match=r"m001_t was changed .* put the change into a new migration"):
        await migrate(empty, directory=tmp_path)


async def test_only_the_new_migration_runs_on_an_older_database(empty: ClickHouse, tmp_path: Path) -> None:
    await migrate(empty, directory=files(tmp_path, m001_t=TABLE))
    files(tmp_path, m002_more="-- why; it is\nALTER TABLE t ADD COLUMN IF NOT EXISTS word String DEFAULT 'a;b';\n")
    assert await migrate(empty, directory=tmp_path) == ("m002_more",)
    assert [row[:2] for row in (await empty.query("DESCRIBE t")).rows] == [("n", "UInt8"), ("word", "String")]


async def test_a_database_of_newer_code_is_refused(empty: ClickHouse, tmp_path: Path) -> None:
    await migrate(empty, directory=files(tmp_path, m001_t=TABLE, m002_u=TABLE.replace(" t ", " u ")))
    (tmp_path / "m002_u.sql").unlink()
    with pytest.raises(ConfigError, match="start the newer code"):
        await migrate(empty, directory=tmp_path)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("m001_t", "CREATE TABLE t (n UInt8) ENGINE = Memory;", "may run twice"),
        ("m001_t", "INSERT INTO t VALUES (1);", "may run twice"),
        ("m001_t", TABLE + "INSERT INTO t (n) SELECT 1;", "a copy, .* into a ReplacingMergeTree"),
        ("m002_t", TABLE, "must be m001"),
        ("tables", TABLE, "name it m001"),
    ],
)
def test_a_migration_that_could_do_harm_is_refused_before_it_runs(
    tmp_path: Path, name: str, text: str, says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        load_migrations(files(tmp_path, **{name: text}))


@pytest.mark.slow
async def test_a_second_start_applies_nothing_and_what_a_process_died_before_recording_runs_again_without_harm(
    empty: ClickHouse,
) -> None:
    names = await migrate(empty)
    assert names == tuple(m.name for m in load_migrations())
    assert await migrate(empty) == ()
    made = {*COLUMNS, "outcomes", "runs", "run_cases", "migrations", "v_cost_by_step", "v_run_cases"}
    assert made <= await tables(empty)
    await empty.command("INSERT INTO runs (run_id) VALUES ('kept')")
    await empty.command("TRUNCATE TABLE migrations")
    assert await migrate(empty) == names
    assert (await empty.query("SELECT run_id FROM runs")).rows == [("kept",)]


OLD_SIGNALS = {
    # signal: (status, flags, rules of its adjustments) → (stage, verdict, unchecked_reason)
    "told at once": (("preliminary", [], []), ("preliminary", "unchecked", "preliminary")),
    "never searched": (("preliminary_only", ["not_deep_analysed"], []), ("final", "unchecked", "")),
    "refuted": (("verified", ["refuted"], ["denied_or_conflict"]), ("final", "refuted", "")),
    "disputed": (("degraded", [], ["denied_or_conflict", "memory"]), ("final", "disputed", "")),
    "stale": (("verified", ["stale"], ["stale"]), ("final", "stale", "")),
    "few": (("verified", [], ["few_sources", "bounds"]), ("final", "unconfirmed", "")),
    "none": (("verified", [], ["no_evidence"]), ("final", "unconfirmed", "")),
    "many": (("verified", [], ["multi_source_official"]), ("final", "", "")),
    "taken back": (("retracted", ["retracted"], ["multi_source", "retracted"]), ("retracted", "", "")),
    "replaced": (("superseded", [], ["few_sources"]), ("superseded", "unconfirmed", "")),
}


OPENED = {
    # case: (month of 2026, offset, payload)
    "full": (
        1,
        4,
        {
            "news": {
                "source": "wire",
                "external_id": "n1",
                "url": "https://a.example",
                "author": "ann",
                "text": "文 | x",
            }
        },
    ),
    "bare": (2, 5, {"news": {"source": "wire", "text": "y"}}),
    "emptied": (2, 6, None),
}


async def test_news_are_copied_whole_however_often_the_copy_was_cut_off(empty: ClickHouse, tmp_path: Path) -> None:
    copying = next(one for one in load_migrations() if one.name.endswith("_labels_and_news"))
    await migrated_to(empty, tmp_path, copying.number - 1)
    rows: list[tuple[object, ...]] = []
    for case, (month, offset, said) in OPENED.items():
        rest = {"language": "en", "text_hash": "h"}
        more = {
            "published_at": "2025-12-31T23:59:59.5+00:00",
            "received_at": "2026-01-01T00:00:01Z",
            "keywords_hit": ["k"],
        }
        payload = "" if said is None else orjson.dumps({"news": {**said["news"], **more}, **rest}).decode()
        at = datetime(2026, month, 1, tzinfo=UTC)
        first = ("live", case, f"e-{case}", "newsproof.event_received", at, offset, payload, 2**64 - 1 - offset)
        again = (*first[:5], offset + 9, payload.replace("wire", "later"), 2**64 - 1 - offset - 9)  # delivered again
        rows += [first, again]
    columns = ("run_id", "case_id", "event_id", "event_type", "event_time", "journal_offset", "payload", "first_wins")
    await empty.insert("events", columns, rows)
    await empty.insert("signals", ("run_id", "signal_id", "revision", "asset"), [("live", "s", 1, "BTC")])
    statements = copying.statements
    copy = next(n for n, one in enumerate(statements) if one.startswith("INSERT INTO news"))
    for killed_before in range(len(statements) + 1):  # a process that died before this statement
        for statement in statements[:killed_before]:
            await empty.command(statement)
        if killed_before == copy:  # … or in the middle of the copy
            await empty.command(f"{statements[copy]} AND case_id = 'full'")
    assert copying.name in await migrate(empty)
    kept = "case_id, event_id, source, external_id, url, author, text, language, text_hash, keywords, journal_offset"
    found = (await empty.query(f"SELECT {kept} FROM news FINAL ORDER BY case_id")).rows
    assert found == [
        ("bare", "e-bare", "wire", "", "", "", "y", "en", "h", ["k"], 5),
        ("full", "e-full", "wire", "n1", "https://a.example", "ann", "文 | x", "en", "h", ["k"], 4),
    ]
    times = (await empty.query("SELECT DISTINCT published_at, received_at FROM news FINAL")).rows
    assert times == [
        (datetime(2025, 12, 31, 23, 59, 59, 500_000, tzinfo=UTC), datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC))
    ]
    assert (await empty.query("SELECT count() FROM events")).rows == [(6,)]  # a copy: nothing is taken away
    by_asset = "SELECT signal_id FROM signals WHERE run_id = 'live' AND upper(asset) = 'BTC'"
    assert (await empty.query(by_asset)).rows == [("s",)]


async def migrated_to(client: ClickHouse, directory: Path, last: int) -> None:
    for one in load_migrations()[:last]:
        (directory / f"{one.name}.sql").write_bytes((DIRECTORY / f"{one.name}.sql").read_bytes())
    await migrate(client, directory=directory)


async def test_signals_of_schema_1_get_their_stage_and_the_verdict_that_their_rules_had_a_word_for(
    empty: ClickHouse, tmp_path: Path
) -> None:
    await migrated_to(empty, tmp_path, 5)
    for name, ((status, flags, rules), _) in OLD_SIGNALS.items():
        steps = [(rule, 0.1, "why") for rule in rules]
        page = [("https://a.example", "h", "supports", 1, 0, None)]
        columns = ("run_id", "signal_id", "revision", "status", "risk_flags", "adjustments", "evidence")
        await empty.insert("signals", columns, [("live", name, 1, status, flags, steps, page)])
        said = {"status": status, "risk_flags": flags, "adjustments": [{"rule": rule} for rule in rules]}
        text = orjson.dumps(said).decode() if status in ("verified", "degraded", "preliminary_only") else ""
        columns = ("run_id", "case_id", "has_signal", "signal", "started_at")
        await empty.insert("run_cases", columns, [("run", name, int(text != ""), text, datetime.now(UTC))])
    for name in await migrate(empty):
        assert int(name[1:4]) > 5
    for table in ("signals", "run_cases"):  # as parts of before are read, and as they are merged
        asked = "signal_id, stage, verdict, unchecked_reason" if table == "signals" else "case_id, verdict"
        first = (await empty.query(f"SELECT {asked} FROM {table} ORDER BY 1")).rows
        await empty.command(f"OPTIMIZE TABLE {table} FINAL")
        assert (await empty.query(f"SELECT {asked} FROM {table} ORDER BY 1")).rows == first
        found = {name: tuple(rest) for name, *rest in first}
        if table == "signals":
            assert found == {name: now for name, (_, now) in OLD_SIGNALS.items()}
        else:
            assert found == {name: (now[1] if now[0] == "final" else "",) for name, (_, now) in OLD_SIGNALS.items()}
    columns = "supporting_sources, summary_zh, tupleElement(evidence[1], 'url'), tupleElement(evidence[1], 'quote')"
    assert (await empty.query(f"SELECT DISTINCT {columns} FROM v_signals")).rows == [
        (None, "", "https://a.example", None)
    ]
    judged = (await empty.query("SELECT count() FROM v_judgements")).rows[0][0]
    assert judged == sum(stage == "final" for _, (stage, *_) in OLD_SIGNALS.values())
