"""`newsproof labels` on real tables: what is stored, replaced and refused, and what is said of a run."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from evaluation.labels.label_file import read_labels, sample_labels
from infra.clickhouse.client import ClickHouse
from infra.offline.sample_news import sample_news
from newsproof.app.invocation import Invocation
from newsproof.cli.measure import labels
from newsproof.cli.measure.labels import (
    compare_labels,
    import_labels,
    list_sources,
    print_import,
    print_report,
    remove_labels,
)
from schemas import events as ev
from schemas.errors import ConfigError
from schemas.news import News
from tests.infra.clickhouse.clickhouse_samples import NOW, fill, fill_signals, published, record, signal

JUDGED: dict[str, tuple[str, str, float]] = {
    "a": ("confirmed", "buy", 0.9),
    "b": ("confirmed", "sell", 0.8),
    "c": ("refuted", "observe", 0.1),
    "d": ("unconfirmed", "observe", 0.5),
}


@pytest.fixture
async def tables(clickhouse: ClickHouse, monkeypatch: pytest.MonkeyPatch) -> ClickHouse:
    """Four judged cases, case-a to case-d, of the news wire:a to wire:d."""

    @asynccontextmanager
    async def found(_: Invocation, *, admin: bool) -> Any:
        assert admin
        yield clickhouse

    monkeypatch.setattr(labels, "database", found)
    for name, (verdict, action, confidence) in JUDGED.items():
        case = f"case-{name}"
        news = News(source="wire", external_id=name, text=f"text {name}", published_at=NOW)
        await fill(
            clickhouse,
            [record(ev.EventReceived(news=news, text_hash=news.text_hash, config_hash="h", language="en"), case=case)],
        )
        of = signal(signal_id=case, case_id=case, verdict=verdict, action=action, confidence=confidence)
        await fill_signals(clickhouse, published(of))
    return clickhouse


async def imported(directory: Path, *lines: str, skip_unknown: bool = False) -> Any:
    path = directory / "l.csv"
    path.write_text("\n".join(("case,truth,source,note", *lines)), "utf-8")
    return await import_labels(Invocation(), read_labels(path), skip_unknown=skip_unknown)


async def counting(client: ClickHouse) -> list[Any]:
    return (await client.query("SELECT source, case_id, truth, note FROM v_labels ORDER BY ALL")).rows


async def test_a_later_import_of_a_source_replaces_all_that_it_said(
    tables: ClickHouse, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = await imported(tmp_path, "a,true,ann,", "wire:b,false,ann,", "case-a,false,bob,why")
    assert (first.labels, first.replaced, first.unknown) == ({"ann": 2, "bob": 1}, {}, ())
    second = await imported(tmp_path, "c,partly,ann,")
    assert (second.labels, second.replaced) == ({"ann": 1}, {"ann": 2})
    await tables.command("OPTIMIZE TABLE labels FINAL")
    assert await counting(tables) == [("ann", "case-c", "partly", ""), ("bob", "case-a", "false", "why")]
    await list_sources(Invocation(), as_json=True)
    listed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(s["source"], s["labels"], s["said_partly"]) for s in listed] == [("ann", 1, 1), ("bob", 1, 0)]


async def test_when_a_label_was_given_is_kept_where_the_file_says_so(tables: ClickHouse, tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    path.write_text(
        '{"case": "a", "truth": true, "when": "2024-01-31T14:00:00.5+02:00"}\n{"case": "b", "truth": false}\n'
    )
    await import_labels(Invocation(), read_labels(path, source="ann"), skip_unknown=False)
    rows = (await tables.query("SELECT case_id, truth, labelled_at FROM v_labels ORDER BY case_id")).rows
    assert rows == [
        ("case-a", "true", datetime(2024, 1, 31, 12, 0, 0, 500_000, tzinfo=UTC)),
        ("case-b", "false", None),
    ]


async def test_removing_a_source_leaves_the_others_and_an_unknown_one_is_refused(
    tables: ClickHouse, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await imported(tmp_path, "a,true,ann,", "b,true,ann,", "a,false,bob,")
    await imported(tmp_path, "a,unknown,ann,")
    await remove_labels(Invocation(), "ann")
    assert capsys.readouterr().out == "1 label of ann deleted.\n"  # and its first import does not come back
    assert await counting(tables) == [("bob", "case-a", "false", "")]
    with pytest.raises(ConfigError, match="no labels are from 'ann': the sources are bob"):
        await remove_labels(Invocation(), "ann")


async def test_names_of_no_case_or_of_several_are_refused_before_anything_is_stored(
    tables: ClickHouse, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as caught:
        await imported(tmp_path, "a,true,ann,", "case,true,ann,", "z,true,ann,", "case-a,true,ann,")
    said = str(caught.value)
    assert "nothing was imported, because 3 lines do not name exactly one case" in said and "--skip-unknown" in said
    assert "line 3: 'case' matches several cases: case-a, case-b, case-c, case-d" in said
    assert "line 4: no case has the name 'z'" in said
    assert "line 5: ann labels the same case as line 2" in said
    assert await counting(tables) == []
    done = await imported(tmp_path, "a,true,ann,", "z,true,ann,", skip_unknown=True)
    assert (done.labels, done.unknown) == ({"ann": 1}, ("z",))
    with pytest.raises(ConfigError, match="none of its 1 names is that of a case"):
        await imported(tmp_path, "z,true,ann,", skip_unknown=True)
    with pytest.raises(ConfigError, match="42 lines do not name exactly one case"):
        await import_labels(Invocation(), sample_labels(), skip_unknown=False)
    # A run of the bundled sample log, whose news are in no table.
    row = ("log", sample_news()[0].case_id, datetime.now(UTC))  # the table forgets old runs
    await tables.insert("run_cases", ("run_id", "case_id", "started_at"), [row])
    assert (await import_labels(Invocation(), sample_labels(), skip_unknown=True)).labels == {"sample": 1}


async def test_two_who_disagree_settle_nothing_and_who_does_not_know_says_nothing(
    tables: ClickHouse, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await imported(
        tmp_path,
        *("a,false,ann,", "a,unknown,bob,"),  # false
        *("b,true,ann,", "b,false,bob,"),  # disputed, in whatever order they were imported
        "c,true,ann,",
    )
    rows = await tables.query(
        "SELECT case_id, truth, was_true, round(squared_error, 6), acted, confirmed_that_was_false, "
        "refuted_that_was_true, labels, label_sources FROM v_judgement_on_labels WHERE run_id = 'live' ORDER BY case_id"
    )
    assert rows.rows == [
        ("case-a", "false", 0, 0.81, 1, 1, 0, 2, ["ann", "bob"]),
        ("case-b", "disputed", None, None, 1, 0, 0, 2, ["ann", "bob"]),
        ("case-c", "true", 1, 0.81, 0, 0, 1, 1, ["ann"]),
    ]
    found = await compare_labels(Invocation(), "live")
    assert (found.judgements, found.labelled, found.by_truth["disputed"]) == (4, 3, 1)
    assert (found.confirmed_that_was_false.count, found.confirmed_that_was_false.of) == (1, 1)
    assert (found.refuted_that_was_true.count, found.all.brier, found.acted.judgements) == (1, pytest.approx(0.81), 1)
    print_report(found)
    said = capsys.readouterr().out
    assert "Labels compared with offline judgements (run id live): 3 of 4 judgements are of labelled cases" in said
    assert "confirmed, but false" in said
    print_import(await imported(tmp_path, "a,true,ann,"))
    assert "1 label from ann (l.csv), replacing 3" in capsys.readouterr().out


async def test_a_run_without_signals_and_one_without_labels_are_told_apart(tables: ClickHouse, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no case of run 'live' has a label: import some"):
        await compare_labels(Invocation(), "live")
    with pytest.raises(ConfigError, match="run 'none' has no signals"):
        await compare_labels(Invocation(), "none")


async def test_labels_are_held_against_the_repeats_of_a_backtest_too(tables: ClickHouse, tmp_path: Path) -> None:
    columns = ("run_id", "case_id", "repeat", "story_id", "has_signal", "signal", "action", "confidence", "started_at")
    now = datetime.now(UTC)  # rows of runs go 180 days after their run
    rows = [("b", "case-a", n, "s", 1, '{"verdict":"likely"}', "buy", 0.6 + n / 10, now) for n in range(2)]
    await tables.insert("run_cases", columns, [*rows, ("b", "case-b", 0, "s", 0, "", "", 0.0, now)])
    await imported(tmp_path, "a,true,ann,", "b,true,ann,")
    found = await compare_labels(Invocation(), "b")
    assert (found.judgements, found.all.judgements, found.all.stories) == (2, 2, 1)
    assert found.all.brier == pytest.approx((0.4**2 + 0.3**2) / 2)
    assert found.verdicts == {"likely": {"true": 2, "false": 0, "partly": 0, "disputed": 0, "unknown": 0}}
