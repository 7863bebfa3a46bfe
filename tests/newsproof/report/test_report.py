"""``newsproof report``: the figures are those of the views, in the terminal and on a page that loads and runs nothing."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from lxml import html as parser  # type: ignore[import-untyped]

from evaluation.statistics.blocks import share_interval
from infra.clickhouse.client import ClickHouse
from newsproof.app import exits
from newsproof.report.audit import print_audit
from newsproof.report.data import ANSWERS, Report, answers_of, by_day, read_report, usd
from newsproof.report.html_report import page_of
from newsproof.report.period import Period
from newsproof.report.text_report import print_report_of
from newsproof.web.responses import as_csv
from schemas import events as ev
from streams.audit.audit import AuditReport
from streams.audit.signals import FaultySignal
from tests.infra.clickhouse.clickhouse_samples import (
    NOW,
    fill,
    fill_signals,
    model_call,
    published,
    record,
    signal,
)
from tests.infra.clickhouse.test_questions import the_set
from tests.newsproof.command import newsproof

HOSTILE = "<svg onload=alert(1)>"
AT = "2026-03-01 12:00 UTC"


@pytest.fixture
async def report(clickhouse: ClickHouse) -> Report:
    """Of the ten questions' set, whose answers tests/infra/clickhouse/test_questions.py works out by hand."""
    await the_set(clickhouse)
    return await read_report(clickhouse, run_id="live", interval=share_interval)


def test_the_terminal_shows_cost_latency_confidence_and_calibration(
    report: Report, capsys: pytest.CaptureFixture[str]
) -> None:
    print_report_of(report)
    said = capsys.readouterr().out
    for view in ("v_calls", "v_judgements", "v_held_outcomes", "v_trust_checks"):
        assert view in said
    assert "0.06" in said and "8 signals" in said and "1 of 4 calls have no known price" in said
    assert "█" in said
    assert re.search(r"│ 1 h +│ +4 │", said), said


def test_unknown_prices_are_counted_and_in_no_sum(report: Report) -> None:
    assert sum(by_day(report)["2026-03-01"].values()) == pytest.approx(0.06)
    assert sum(row["unpriced"] for row in report["spend"]) == 1
    assert [usd(v) for v in (None, 0.0, 0.00012, 1234.5)] == ["unknown", "0.00", "0.00012", "1,234.50"]


@pytest.mark.slow
async def test_figures_are_of_the_period_and_agree_with_the_views(report: Report, clickhouse: ClickHouse) -> None:
    for name, sql in {
        "calibration": "SELECT horizon_s, cases, hit_rate, mean_confidence, brier, ece FROM v_calibration WHERE run_id = 'live' ORDER BY horizon_s",
        "reliability": "SELECT horizon_s, confidence_from, cases, stories, mean_confidence, hit_rate FROM v_reliability WHERE run_id = 'live' ORDER BY horizon_s, confidence_from",
        "coverage": "SELECT horizon_s, standing, signals, on_synthetic_prices FROM v_outcome_coverage WHERE run_id = 'live' ORDER BY horizon_s, standing",
        "to_signal": "SELECT verdict, signals FROM v_latency_to_signal WHERE run_id = 'live' ORDER BY verdict",
        "latency": "SELECT step, results, failures FROM v_latency_by_step WHERE run_id = 'live' ORDER BY step",
    }.items():
        wanted = (await clickhouse.query(sql)).dicts()
        assert [{key: row[key] for key in wanted[0]} for row in report[name]] == [pytest.approx(row) for row in wanted]
    every = next(row for row in report["precision"] if (row["horizon_s"], row["by"]) == (3600, "all"))
    assert (every["counted"], every["low"], every["blocks"]) == (4, None, 1), (
        "four outcomes of one day have no interval"
    )
    day = NOW.date()
    for period, signals in (
        (Period(day, day), 8),
        (Period(None, day - timedelta(days=1)), 0),
        (Period(day + timedelta(days=1)), 0),
    ):
        found = await read_report(clickhouse, run_id="live", interval=share_interval, period=period, trust=False)
        assert sum(row["signals"] for row in found["signals"]) == signals
        assert sum(row["calls"] for row in found["spend"]) == signals / 2
        assert bool(found["calibration"]) == bool(signals) and found["trust"] == ()


def test_what_was_not_verified_is_counted_by_its_reason_and_changed_no_confidence() -> None:
    row = {"day": "2026-03-01", "event_type": "hack", "preliminary": 1.6, "final": 1.0, "raised": 0, "lowered": 2}
    judged = [
        {**row, "verdict": "refuted", "unchecked_reason": "", "delta_from": -0.3, "signals": 2},
        {**row, "verdict": "unchecked", "unchecked_reason": "gate", "delta_from": 0.0, "signals": 5},
    ]
    blocks = [
        {"horizon_s": 300, "part_of": "verdict", "name": "refuted", "block": day, "acted": 3, "counted": 2, "hits": day % 3}
        for day in range(6)
    ]  # fmt: skip
    found = answers_of(
        {"calls": [], "latency": [], "to_signal": [], "judgements": judged, "outcomes": blocks}, share_interval
    )
    assert found["unchecked"] == [{"unchecked_reason": "gate", "signals": 5}]
    assert found["deltas"] == [{"delta_from": -0.3, "signals": 2}] and found["deltas_by_type"][0]["signals"] == 2
    (day,) = found["signals"]
    assert (day["signals"], day["refuted"], day["unchecked"], day["without_verdict"]) == (7, 2, 5, 0)
    (share,) = found["precision"]
    hits, labels = np.array([0, 0, 1, 0, 1, 1, 0, 0, 1, 0, 1, 1.0]), np.repeat(np.arange(6), 2)
    assert (share["acted"], share["counted"], share["hits"], share["precision"]) == (18, 12, 6, 0.5)
    assert (share["low"], share["high"]) == pytest.approx(share_interval(hits, labels))


@pytest.mark.security
def test_a_text_is_no_formula_in_a_spreadsheet() -> None:
    rows = [
        {"source": '=HYPERLINK("https://evil.example")', "n": -1},
        {"source": "wire, a", "n": None},
        {"source": " @x", "n": 2},
    ]
    assert as_csv(("source", "n"), rows).splitlines() == [
        "source,n", "\"'=HYPERLINK(\"\"https://evil.example\"\")\",-1", '"wire, a",', "' @x,2",
    ]  # fmt: skip


def test_the_page_holds_every_chart_beside_its_table_and_nothing_of_elsewhere(report: Report) -> None:
    page = page_of(report, written_at=AT)
    tree = parser.fromstring(page)
    charts, narrow = (tree.xpath(f"//figure/div[@class='{size}']/svg") for size in ("wide", "narrow"))
    titles = [c.findtext("title") for c in charts]
    assert (
        titles
        == [c.findtext("title") for c in narrow]
        == [
            "Signals by verdict",
            "Precision of signals to buy or sell",
            "Confidence change by verification",
            "Reliability: stated confidence and share of hits",
            "Cost by step",
            "Latency by step",
        ]
    )
    for chart in charts:
        assert chart.get("role") == "img" and chart.findtext("desc")
    for section in tree.xpath("//section[figure]"):
        assert section.xpath(".//table[caption]/thead//th[@scope='col']"), section.findtext("h2")
    assert_inert(page)
    assert page == page_of(report, written_at=AT)
    assert "ECE" in page and "1 h" in page and "not_imported" in page


def assert_inert(page: str) -> None:
    """No script, no handler, no address that a browser would ask, and a policy that allows the one style sheet alone."""
    tree = parser.fromstring(page)
    assert not tree.xpath(
        "//script|//iframe|//object|//embed|//link|//img|//base|//form|//a|//use|//image|//foreignobject"
    )
    for element in tree.iter():
        for name, value in element.attrib.items():
            assert not name.lower().startswith("on") and name not in ("src", "href", "xlink:href", "style"), (
                name,
                value,
            )
    assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", page) and "@import" not in page and "url(" not in page
    (policy,) = tree.xpath("//meta[@http-equiv='Content-Security-Policy']/@content")
    (style,) = tree.xpath("//style")
    digest = base64.b64encode(hashlib.sha256(style.text.encode()).digest()).decode()
    assert policy.startswith("default-src 'none'; ") and f"style-src 'sha256-{digest}'" in policy
    assert "prefers-color-scheme:dark" in style.text


async def test_hostile_text_in_the_data_is_shown_and_does_nothing(
    clickhouse: ClickHouse, capsys: pytest.CaptureFixture[str]
) -> None:
    await fill_signals(clickhouse, published(signal(event_type=HOSTILE)))
    recalled = ev.ContextGathered(entries=(), memory="no_match", calls=(model_call("0.5", mode=HOSTILE),))
    await fill(clickhouse, [record(recalled, step=HOSTILE)])
    report = await read_report(clickhouse, run_id="live", interval=share_interval)
    page = page_of(report, written_at=HOSTILE)
    assert_inert(page)
    assert HOSTILE not in page and page.count("&lt;svg onload=alert(1)&gt;") >= 3
    print_report_of(report)
    assert HOSTILE in capsys.readouterr().out


async def test_without_outcomes_it_says_so_and_draws_no_curve(clickhouse: ClickHouse) -> None:
    await fill_signals(clickhouse, published(signal()))
    page = page_of(await read_report(clickhouse, run_id="live", interval=share_interval), written_at=AT)
    assert "No signal has an outcome yet" in page and "newsproof outcomes import" in page
    assert not parser.fromstring(page).xpath("//section[h2='Reliability']//svg//circle")


async def test_made_up_prices_are_called_so(clickhouse: ClickHouse, capsys: pytest.CaptureFixture[str]) -> None:
    await the_set(clickhouse)
    await clickhouse.command("ALTER TABLE outcomes UPDATE source = 'synthetic:x' WHERE 1 SETTINGS mutations_sync = 1")
    report = await read_report(clickhouse, run_id="live", interval=share_interval)
    print_report_of(report)
    assert "SYNTHETIC" in capsys.readouterr().out and "SYNTHETIC" in page_of(report, written_at=AT)


async def test_a_run_that_is_not_there_is_named(clickhouse: ClickHouse, capsys: pytest.CaptureFixture[str]) -> None:
    report = await read_report(clickhouse, run_id="no-such-run", interval=share_interval)
    print_report_of(report)
    assert "no data of this run" in capsys.readouterr().out
    assert_inert(page_of(report, written_at=AT))
    assert tuple(report.answers) == ANSWERS


@pytest.mark.slow
def test_the_command_prints_writes_the_page_and_says_where(tmp_path: Path) -> None:
    done = newsproof("report", "--html", "report.html", cwd=tmp_path)
    assert done.returncode == exits.OK, done.stderr
    assert "Wrote report.html" in done.stderr and "no data of this run" in done.stdout
    page = (tmp_path / "report.html").read_text("utf-8")
    assert_inert(page)
    assert "prices" not in page, "that there is nothing is said once"
    as_json = newsproof("report", "--json", "--html", "no/such/place.html", cwd=tmp_path)
    assert as_json.returncode == exits.USAGE and "cannot be written" in as_json.stderr
    assert json.loads(as_json.stdout)["run_id"] == "live"


@pytest.mark.security
def test_the_audit_lists_what_is_forged_or_overstated_and_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    required = [field.name for field in msgspec.structs.fields(AuditReport) if field.required]
    counts: dict[str, Any] = dict.fromkeys(required, 0)
    forged = (FaultySignal(1, 42, "it differs from what the journal holds"),)
    overstated = (FaultySignal(0, 7, "sell of what is refuted"),)
    print_audit(AuditReport(**counts, forged_signals=30, forged=forged, overstated_signals=2, overstated=overstated))
    said = capsys.readouterr().out
    assert "Overstated signals (1 of 2)" in said and "sell of what is refuted" in said
    assert "Forged or altered signals (1 of 30)" in said and "it differs from what the journal holds" in said
    assert "NOT CLEAN" in said and "Do not act on these records" in said and "Clean:" not in said
    assert "newsproof dlq" not in said, "nothing is lost or twice here"
